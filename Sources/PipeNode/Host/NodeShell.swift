import Glibc
import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// A node without its content. The content of a node is, for example, a machine. The shell consists
/// of the node's connection to the orchestrator, its inbox, its outbound pipes, its feed and its
/// journal.
///
/// The shell lets the content process its inputs in turns. The shell first records a turn, and only
/// then makes the turn's results visible.
final class NodeShell {
  private let arguments: NodeArguments
  private let content: HostedContent
  private let log: NodeLog
  private let environment: NodeEnvironment
  /// The additional parts of a node to which other hosts can connect; `nil` if all nodes are on one
  /// host.
  private let network: NodeNetwork?
  private var loop: PollLoop { environment.loop }
  let control: ControlLink
  /// The nodes that are embedded in this node's process; `nil` if the node is embedded itself.
  private let embeddedNodes: EmbeddedNodes?
  private let inbox: NodeInbox
  private let outPipes: OutPipes
  private let feed: Feed
  private lazy var summaries = NodeSummaries(of: content, to: feed) { [unowned self] in status }
  private lazy var compositeSteps = CompositeStepFeed(to: feed)
  private let journal: Journal?
  private let recorder: NodeRecorder
  /// The log of a recorded run; `nil` if the run is not recorded.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var stepLog: StepLog?
  private var handshake = NodeHandshake()
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var hasLeft = false
  /// The sequence number of the last ping that is not answered yet.
  private var unansweredPing: UInt64?
  /// Whether the node must stop as soon as its content can stop.
  @exclusivity(unchecked)
  private var isStopPending = false
  /// Whether the whole topology is stopping, and not only this node.
  private var isTopologyStopping = false
  private(set) var exitCode: Int32 = 0
  private var turnRegistration: PollLoop.Registration?
  /// Called when an embedded node has left, with the reason to report. The process and its loop
  /// continue to run.
  var onLeave: ((_ reason: String) -> Void)?

  /// The time for which a stopping node waits for its receivers to apply all events.
  private static let drainTimeout: Duration = .seconds(1)
  /// The time for which a stopping node waits until synchronized events in progress have ended.
  private static let transactionTimeout: Duration = .milliseconds(500)
  /// The maximum number of sockets of a pipe: its own socket, and the sockets that monitor
  /// its connections.
  private static let socketsPerPipe = 5
  /// The linger period of goodbyes if all other nodes stop as well. It is short, since peers that
  /// have already stopped do not read goodbyes.
  private static let shutdownLinger: Duration = .milliseconds(100)
  /// The time for which a new process waits for its orchestrator.
  private static let greetingTimeout: Duration = .seconds(30)

  /// - Parameter embeddedNodes: The nodes that are embedded in this node's process; `nil` if the
  ///   node is embedded itself.
  init(
    arguments: NodeArguments, content: HostedContent, journal: Journal?,
    at environment: NodeEnvironment,
    by link: NodeLink, embeddedNodes: EmbeddedNodes?, log: NodeLog
  ) throws(TransportError) {
    self.arguments = arguments
    self.content = content
    self.journal = journal
    self.environment = environment
    self.embeddedNodes = embeddedNodes
    self.log = log
    let (loop, context) = (environment.loop, environment.context)
    network = link.keys.map { NodeNetwork($0, log: log) }
    control = link.control
    inbox = try NodeInbox(
      session: arguments.incarnation, content: content, context: context, loop: loop, log: log)
    feed = try Feed(
      node: arguments.node, incarnation: arguments.incarnation, context: context, loop: loop)
    outPipes = OutPipes(loop: loop, log: log)
    recorder = NodeRecorder(
      journal, content: content, inbox: inbox, outs: outPipes, loop: loop)
    if let network {
      network.bind(inbox.socket, feed.socket, as: arguments)
    } else if environment.carrier == nil {
      try inbox.socket.bind(arguments.inbox)
      try feed.socket.bind(arguments.feed)
    } else {
      try inbox.socket.bindKeepingFile(arguments.inbox)
      try feed.socket.bindKeepingFile(arguments.feed)
    }
    try control.connect()
  }

  /// Runs the loop until the node stops, and returns the exit code of the process.
  func run(stoppingOn signals: SignalDescriptor) -> Int32 {
    loop.add(descriptor: signals.descriptor, for: self) { shell in
      while signals.next() != nil {}
      shell.stop()
    }
    registerWithLoop()
    // The loop does not retain the objects that it calls, so this call keeps the shell alive.
    withExtendedLifetime(self) { loop.run() }
    return exitCode
  }

  /// Registers the node's sockets and handlers with the loop, and sends the hello to the
  /// orchestrator.
  func registerWithLoop() {
    recorder.onFailure = { [weak self] in self?.fail("\($0)", code: $0.exitCode) }
    feed.currentStates = { [weak self] in self?.lastSteps() ?? [] }
    feed.onChange = { [weak self] in self?.feedChanged(asksForSummaries: $0) }
    content.publishInstances(to: feed)
    content.observe(
      onEntry: { [weak self, feed] isCommitted in
        // Usually no subscriber asks for states, and this check costs less than loading a weak
        // reference.
        if feed.hasStateSubscriber(isCommitted: isCommitted) {
          self?.keepLastStep(isCommitted: isCommitted)
        }
      },
      onEnd: { [weak self] reason in
        if let reason { self?.fail(reason) } else { self?.leave() }
      })
    control.onFrame = { [weak self] in try self?.handle($0, $1) }
    control.onFramesRead = { [weak self] in self?.answerPing() }
    control.onReconnection = { [weak self] in self?.sendHello() }
    control.run()
    loop.add(inbox.socket, for: inbox) { $0.read() }
    loop.add(feed.socket, for: feed) { $0.readSubscriptions() }
    turnRegistration = loop.addTurnHandler(
      for: self, hasWork: { $0.hasWork }, beforeWait: { $0.runTurn() })
    loop.schedule(after: Self.greetingTimeout, for: self) { shell in
      if shell.handshake.phase == .greeting {
        shell.fail(
          "no orchestrator answered at '\(shell.arguments.control)' within 30 s"
            + (shell.network == nil ? "" : NodeNetwork.noAnswerHint))
      }
    }
    sendHello()
  }

  /// Reports a failure reason to the orchestrator, and ends the node. Returns the exit code.
  @discardableResult
  func leaveAtOnce(because reason: String, code: Int32 = EXIT_FAILURE) -> Int32 {
    sendHello(temporaryFailure: reason)
    fail(reason, code: code)
    return exitCode
  }

  var name: String { arguments.node }

  /// The reason why the node's sockets could not be bound; `nil` if there was no error. The node
  /// must then end, but a restart may succeed.
  var bindFailure: String? { network?.bindFailure }

  // MARK: Turns of the content

  private var hasWork: Bool { handshake.isRunning && content.hasWork }

  private func keepLastStep(isCommitted: Bool) {
    guard var entry = content.stepCallbacks.lastStep() else { return }
    entry.isCommitted = isCommitted
    feed.enqueue(entry)
  }

  /// Returns the states to publish immediately to a new subscriber.
  private func lastSteps() -> [PublishedState] {
    guard content.hasUnrecordedChanges else { return content.lastSteps }
    // The content has unrecorded changes, so its states are published when this turn is recorded.
    for entry in content.lastSteps { feed.enqueue(entry) }
    return []
  }

  /// Starts and stops the reports to the feed's subscribers after the subscriptions have changed.
  private func feedChanged(asksForSummaries: Bool) {
    if asksForSummaries { summaries.requestSummary() }
    content.trace(to: feed)
    outPipes.tap(to: feed)
  }

  private func runTurn() {
    switch handshake.phase {
    case .running:
      if content.hasWork { Failpoint.hit(.stepBefore) }
      content.takeTurn()
      commitTurn()
      if isStopPending, content.mayStop { stopIfPending() }
    case .draining:
      commitTurn()
      if outPipes.isDrained { perform(.drained) }
    case .greeting, .configured, .ended: break
    }
  }

  /// Records the turn, and then makes its results visible. With this order, no other process learns
  /// of a step that could still be lost if this process is killed.
  /// - Returns: `false` if the node has ended, now or before.
  @discardableResult
  private func commitTurn() -> Bool {
    guard !hasLeft else { return false }
    if stepLog != nil { writeStepLog() }
    guard record() else { return false }
    content.didRecord()
    feed.publishPending()
    outPipes.didRecord()
    inbox.didRecord()
    summaries.turnEnded()
    return true
  }

  /// Writes the steps of the turn to the log of a recorded run. If this fails, the node continues
  /// without a log: the log then discards further lines.
  private func writeStepLog() {
    do throws(SystemError) { try stepLog?.write() } catch {
      log.warning("the run is recorded up to this point only: \(error)")
    }
  }

  private func endStepLog() {
    guard let stepLog, !content.hasUnrecordedChanges, let last = content.lastSteps.last else {
      return
    }
    stepLog.end(version: last.version)
  }

  /// Begins the log of a recorded run.
  private func beginStepLog(in run: String) {
    do throws(SystemError) {
      let stepLog = try StepLog(
        in: run, node: arguments.node, incarnation: arguments.incarnation)
      guard content.logSteps(in: stepLog) else {
        unlink(stepLog.path)
        return
      }
      try stepLog.write()
      self.stepLog = stepLog
    } catch {
      log.warning("the steps of the node are not recorded: \(error)")
    }
  }

  /// Records the turn. Returns `false` if the journal could not be written; the node has then
  /// ended.
  private func record() -> Bool {
    do {
      try recorder.record()
      return true
    } catch {
      fail("\(error)", code: error.exitCode)
      return false
    }
  }

  /// Commits the current turn early, and then processes the waiting inputs in another turn.
  /// - Returns: `false` if the node has ended.
  private func finishTurn() -> Bool {
    if commitTurn(), content.hasWork { runTurn() }
    return !hasLeft
  }

  // MARK: Messages from the orchestrator

  private func handle(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws {
    switch header.kind {
    case .configure:
      let configuration = try JSONRecord.decode(NodeConfiguration.self, from: body)
      switch handshake.handle(.configure) {
      case .connect: connect(configuration)
      case .extend: extend(by: configuration)
      case .start, .drain, .leave, .ignore: break
      }
    case .start: perform(.start)
    case .stop where body.isEmpty:
      isTopologyStopping = header.flags & NodeHandshake.allStopFlag != 0
      stop()
    case .stop: embeddedNodes?.stop(String(decoding: body, as: UTF8.self))
    case .embed:
      guard let embeddedNodes else { throw FrameError.kind(header.kind.rawValue) }
      embeddedNodes.admit(try JSONRecord.decode(EmbeddedNodeRequest.self, from: body), to: self)
    case .ping:
      if header.count > 0 { control.expectPing(within: .milliseconds(Int64(header.count))) }
      unansweredPing = max(unansweredPing ?? 0, header.sequence)
    case .peers:
      guard let network else { throw FrameError.kind(header.kind.rawValue) }
      // An embedded node's connection to the orchestrator is closed last, so a peer list may arrive
      // after its pipes are closed.
      if !hasLeft { try network.peers.apply(body, number: header.sequence) }
    case .greet: switchOrchestrator(try JSONRecord.decode(NodeGreeting.self, from: body))
    default: throw FrameError.kind(header.kind.rawValue)
    }
  }

  /// Answers all pending pings with one status. So a node that is slow to report its status does
  /// not have to answer each ping.
  private func answerPing() {
    guard let sequence = unansweredPing, !hasLeft else { return }
    unansweredPing = nil
    // The status must show only recorded steps.
    if handshake.isRunning { commitTurn() }
    if !hasLeft, let reason = recorder.recoverRemovedJournal() { fail(reason) }
    sendStatus(answering: sequence)
  }

  /// Switches to a new orchestrator, which replaces the orchestrator that started this process.
  private func switchOrchestrator(_ greeting: NodeGreeting) {
    greeting.redirectOutput()
    network?.peers.resetForNewOrchestrator()
    if let lifeline = greeting.lifelineDescriptor() {
      loop.add(descriptor: lifeline) { kill(getpid(), SIGKILL) }
    }
    sendHello()
  }

  private func connect(_ configuration: NodeConfiguration) {
    do {
      let ins = inbox.open(
        configuration.ins, restored: journal?.contents?.inPipeProgressByPipe ?? [:])
      let context = makePeerContext(configuration)
      let pairs = try outPipes.open(
        configuration.outs, in: context, stream: arguments.incarnation, journal: journal,
        journal?.contents, among: network?.peers
      ) { [weak self] in self?.fail($0) }
      try content.connect(
        outs: pairs, ins: ins, services: services(in: context), configuration)
      outPipes.holdUntilReported(pairs, [inbox.socket, feed.socket])
      if let run = configuration.run { beginStepLog(in: run) }
      inbox.welcomeEarlyPeers()
      // Clients may have subscribed to the feed before the content and the pipes were connected.
      content.trace(to: feed)
      outPipes.tap(to: feed)
      control.send(.ready)
    } catch {
      fail("the node's pipes cannot be connected: \(error)")
    }
  }

  /// Opens the outbound pipes that a changed topology adds to the node.
  private func extend(by configuration: NodeConfiguration) {
    do {
      // Events that the current turn has sent so far do not go through the new pipes.
      guard commitTurn() else { return }
      let pairs = try outPipes.open(
        configuration.outs.filter { !outPipes.contains($0.name) },
        in: makePeerContext(configuration),
        stream: arguments.incarnation, journal: journal, try journal?.readCurrentContents(),
        among: network?.peers
      ) { [weak self] in self?.fail($0) }
      try content.extend(by: pairs)
      content.trace(to: feed)
      outPipes.tap(to: feed)
    } catch {
      fail("pipes cannot be added to the node: \(error)")
    }
  }

  /// Returns the ZeroMQ context for the node's pipes: the context of the process or, if the node
  /// has too many pipes for this context, a new, larger context.
  private func makePeerContext(_ configuration: NodeConfiguration) -> Context {
    configuration.outs.count * Self.socketsPerPipe <= environment.peerSocketCapacity
      ? environment.context : Context()
  }

  private func services(in context: Context) -> NodeServices {
    NodeServices(
      loop: loop, context: context, carrier: environment.carrier, peers: network?.peers,
      finishTurn: { [weak self] in self?.finishTurn() == true },
      send: { [socket = inbox.socket] header, body, peer in
        socket.send(header, body: body, to: peer)
      },
      cutConnections: { [inbox = network?.endpoints?.inbox ?? arguments.inbox] in
        LocalConnections.cut(inbox)
      },
      publish: { [weak self, feed] entry in
        let hasStateSubscriber = feed.hasStateSubscriber(isCommitted: false)
        guard hasStateSubscriber || feed.hasStepSubscriber, let entry = entry() else { return }
        if hasStateSubscriber { feed.enqueue(entry) }
        if feed.hasStepSubscriber { self?.compositeSteps.take(entry) }
      })
  }

  /// Stops the node gracefully. First stops the embedded nodes, and waits a short time until
  /// synchronized events in progress have ended.
  func stop() {
    embeddedNodes?.close()
    if let embeddedNodes, embeddedNodes.hasNodes {
      return embeddedNodes.stopAll { [weak self] in self?.stop() }
    }
    guard handshake.isRunning else { return perform(.stop) }
    if isStopPending { return }
    content.prepareToStop()
    guard !content.mayStop else { return perform(.stop) }
    isStopPending = true
    loop.schedule(after: Self.transactionTimeout, for: self) { $0.stopIfPending() }
  }

  private func stopIfPending() {
    guard isStopPending else { return }
    isStopPending = false
    perform(.stop)
  }

  private func perform(_ input: NodeHandshake.Input) {
    switch handshake.handle(input) {
    case .start:
      inbox.unavailableReason = nil
      content.start()
      control.expectPings()
    case .drain:
      Failpoint.hit(.drainBefore)
      commitTurn()
      inbox.unavailableReason = "the node is stopping"
      content.stop()
      loop.schedule(after: Self.drainTimeout, for: self) { $0.perform(.drainTimeout) }
    case .leave: leave()
    case .connect, .extend, .ignore: break
    }
  }

  /// Also binds the inbox and the feed to `inproc` endpoints, for pipes and subscribers in this
  /// process.
  func bindLocally(_ localPeer: LocalPeer) throws(TransportError) {
    try inbox.socket.bind(localPeer.inbox)
    try feed.socket.bind(localPeer.feed)
  }

  // MARK: Messages to the orchestrator

  private func sendHello(temporaryFailure: String? = nil) {
    let hello = NodeHello(
      node: arguments.node, pid: getpid(), incarnation: arguments.incarnation,
      description: content.description, phase: handshake.phase, failure: content.failureReason,
      temporaryFailure: temporaryFailure, endpoints: network?.endpoints, opensPipes: true)
    do {
      control.send(.hello, try JSONRecord.encode(hello))
    } catch {
      fail("the node's description cannot be written as JSON: \(error)")
    }
  }

  private var status: NodeStatus {
    var status = NodeStatus()
    content.fill(&status)
    status.invalidFrames += control.invalidFrames
    inbox.fill(&status)
    outPipes.fill(&status)
    status.records = journal?.recordCount
    status.time = WallClock.nanoseconds
    status.recording = recorder.recordingDurations.count > 0 ? recorder.recordingDurations : nil
    return status
  }

  private func sendStatus(answering sequence: UInt64) {
    var status = status
    // Only here, because summaries are compared at the end of many turns, and the free space of the
    // disk also changes while the node does nothing.
    status.journal = journal.map { JournalSpace(ofJournal: $0.path) }
    control.send(
      .status, sequence: sequence, count: network?.peers.listNumber ?? 0,
      (try? JSONRecord.encode(status)) ?? [])
  }

  // MARK: Ending the node

  private func fail(_ reason: String, code: Int32 = EXIT_FAILURE) {
    log.failure(reason)
    exitCode = code
    leave(because: reason)
  }

  /// Ends the node immediately, with exit code 1.
  func end(because reason: String) {
    exitCode = 1
    leave(because: reason)
  }

  /// Says goodbye to all peers, and closes the sockets. While the ZeroMQ context ends, each socket
  /// sends its pending messages within its linger period.
  private func leave(because reason: String = "") {
    guard !hasLeft else { return }
    hasLeft = true
    embeddedNodes?.endAll(because: "carrier node '\(arguments.node)' ended")
    content.stop()
    if exitCode == 0 {
      recorder.finish()
      endStepLog()
    }
    outPipes.sayGoodbye()
    inbox.sayGoodbye()
    // An embedded node says goodbye to the orchestrator last, in ``EmbeddedNodes``. The
    // orchestrator can then start the node's next incarnation, in this process or on another host.
    if embeddedNodes != nil { control.sayGoodbye(because: reason, code: exitCode) }
    inbox.close(lingering: isTopologyStopping ? Self.shutdownLinger : .seconds(1))
    outPipes.close(lingering: isTopologyStopping ? Self.shutdownLinger : .milliseconds(300))
    if exitCode == 0, !content.hasUnrecordedChanges {
      feed.publishFinalReports()
      summaries.publishFinalSummary()
    }
    feed.close()
    if let turnRegistration { loop.remove(turnRegistration) }
    guard embeddedNodes != nil else {
      journal?.releaseLock()
      onLeave?(reason)
      return
    }
    control.close()
    loop.stop()
  }
}
