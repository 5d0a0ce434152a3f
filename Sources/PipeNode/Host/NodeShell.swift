import Glibc
import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// One node, controlled by its orchestrator. It takes the inputs of its content in turns, and makes
/// the results of a turn visible once they are recorded.
final class NodeShell {
  private let arguments: NodeArguments
  private let content: HostedContent
  private let log: NodeLog
  private let environment: NodeEnvironment
  /// The additional parts of a node that is bound for other hosts.
  private let network: NodeNetwork?
  private var loop: PollLoop { environment.loop }
  let control: ControlLink
  /// The embedded nodes in its process; `nil` if the node is embedded itself.
  private let embeddedNodes: EmbeddedNodes?
  private let inbox: NodeInbox
  private let outs: OutPipes
  private let feed: Feed
  private lazy var summaries = NodeSummaries(of: content, to: feed) { [unowned self] in status }
  private lazy var compositeSteps = CompositeStepFeed(to: feed)
  private let journal: Journal?
  private let recorder: NodeRecorder
  private var handshake = NodeHandshake()
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var hasLeft = false
  /// The sequence number of the last unanswered ping.
  private var unansweredPing: UInt64?
  /// Whether the node must stop as soon as its content may.
  @exclusivity(unchecked)
  private var isStopPending = false
  /// Whether all other nodes stop as well.
  private var areAllStopping = false
  private(set) var exitCode: Int32 = 0
  private var turns: PollLoop.Registration?
  /// Called when an embedded node has left, with the reason to report. The loop continues.
  var onLeave: ((_ reason: String) -> Void)?

  /// How long a stopping node waits for its receivers to apply all events.
  private static let drainTimeout: Duration = .seconds(1)
  /// How long a stopping node waits for synchronized events in progress to end.
  private static let transactionTimeout: Duration = .milliseconds(500)
  /// The maximum number of sockets of a pipe: its own socket, and the sockets that monitor
  /// its connections.
  private static let socketsPerPipe = 5
  /// The linger period of goodbyes if all other nodes stop as well: a peer that stopped earlier
  /// does not read them.
  private static let shutdownLinger: Duration = .milliseconds(100)
  /// How long a started process waits for its orchestrator.
  private static let greetingTimeout: Duration = .seconds(30)

  /// - Parameter embeddedNodes: The embedded nodes of its process; `nil` if the node is embedded
  ///   itself.
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
    outs = OutPipes(loop: loop, log: log)
    recorder = NodeRecorder(
      journal, content: content, inbox: inbox, outs: outs, loop: loop)
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

  /// Runs the node and the loop until the node stops. Returns the exit code of the process.
  func run(stoppingOn signals: SignalDescriptor) -> Int32 {
    loop.add(descriptor: signals.descriptor, for: self) { shell in
      while signals.next() != nil {}
      shell.stop()
    }
    begin()
    // The loop does not retain the objects that it calls back.
    withExtendedLifetime(self) { loop.run() }
    return exitCode
  }

  /// Registers the node with the loop.
  func begin() {
    recorder.onFailure = { [weak self] in self?.fail("\($0)", code: $0.exitCode) }
    feed.currentEntries = { [weak self] in self?.lastSteps() ?? [] }
    feed.onChange = { [weak self] in self?.feedChanged(asksForSummaries: $0) }
    content.publishInstances(to: feed)
    content.observe(
      onEntry: { [weak self, feed] isCommitted in
        // Usually no subscriber asks for states, and this check costs less than a weak reference.
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
    turns = loop.addTurnHandler(for: self, hasWork: { $0.hasWork }, take: { $0.turn() })
    loop.schedule(after: Self.greetingTimeout, for: self) { shell in
      if shell.handshake.phase == .greeting {
        shell.fail(
          "no orchestrator answered at '\(shell.arguments.control)' within 30 s"
            + (shell.network == nil ? "" : NodeNetwork.noAnswerHint))
      }
    }
    sendHello()
  }

  /// Reports to the orchestrator why the node ends, and ends it.
  @discardableResult
  func leaveAtOnce(because reason: String, code: Int32 = EXIT_FAILURE) -> Int32 {
    sendHello(temporaryFailure: reason)
    fail(reason, code: code)
    return exitCode
  }

  var name: String { arguments.node }

  /// The reason why the node must end at once, since its sockets cannot be bound. Another start may
  /// succeed.
  var bindFailure: String? { network?.bindFailure }

  // MARK: Turns

  private var hasWork: Bool { handshake.isRunning && content.hasWork }

  private func keepLastStep(isCommitted: Bool) {
    guard var entry = content.calls.lastStep() else { return }
    entry.isCommitted = isCommitted
    feed.enqueue(entry)
  }

  /// Returns the states to publish at once for a new subscriber.
  private func lastSteps() -> [FeedEntry] {
    guard content.hasUnrecordedChanges else { return content.lastSteps }
    // Published with the record that this turn makes.
    for entry in content.lastSteps { feed.enqueue(entry) }
    return []
  }

  /// Starts and stops reports after the set of subscribers has changed.
  private func feedChanged(asksForSummaries: Bool) {
    if asksForSummaries { summaries.requestSummary() }
    content.trace(to: feed)
    outs.tap(to: feed)
  }

  private func turn() {
    switch handshake.phase {
    case .running:
      if content.hasWork { Failpoint.hit(.stepBefore) }
      content.takeTurn()
      commitTurn()
      if isStopPending, content.mayStop { stopIfPending() }
    case .draining:
      commitTurn()
      if outs.isDrained { perform(.drained) }
    case .greeting, .configured, .ended: break
    }
  }

  /// Records the turn, and then makes its results visible. Only this order ensures that no other
  /// process learns of a step that is lost when this process is killed.
  /// - Returns: `false` if that has ended the node.
  @discardableResult
  private func commitTurn() -> Bool {
    guard !hasLeft, record() else { return false }
    content.didRecord()
    feed.publishPending()
    outs.didRecord()
    inbox.didRecord()
    summaries.turnEnded()
    return true
  }

  /// Records the turn. Returns `false` if the record failed, which ends the node.
  private func record() -> Bool {
    do {
      try recorder.record()
      return true
    } catch {
      fail("\(error)", code: error.exitCode)
      return false
    }
  }

  /// Commits a turn before its end, and takes the rest of the turn.
  /// - Returns: `false` if that has ended the node.
  private func finishTurn() -> Bool {
    if commitTurn(), content.hasWork { turn() }
    return !hasLeft
  }

  // MARK: Messages of the orchestrator

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
      areAllStopping = header.flags & NodeHandshake.allStopFlag != 0
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
      // An embedded node's pipes may be closed before its connection is.
      if !hasLeft { try network.peers.take(body, number: header.sequence) }
    case .greet: switchOrchestrator(try JSONRecord.decode(NodeGreeting.self, from: body))
    default: throw FrameError.kind(header.kind.rawValue)
    }
  }

  /// Sends one answer to all pending pings. A node that is slow to report its status is not asked
  /// faster than it can answer.
  private func answerPing() {
    guard let sequence = unansweredPing, !hasLeft else { return }
    unansweredPing = nil
    // The status must show recorded steps only.
    if handshake.isRunning { commitTurn() }
    if !hasLeft, let reason = recorder.recoverRemovedJournal() { fail(reason) }
    sendStatus(answering: sequence)
  }

  /// Switches to an orchestrator that replaces the one that started this process.
  private func switchOrchestrator(_ greeting: NodeGreeting) {
    greeting.redirectOutput()
    network?.peers.resetForNewOrchestrator()
    if let lifeline = greeting.lifeline() {
      loop.add(descriptor: lifeline) { kill(getpid(), SIGKILL) }
    }
    sendHello()
  }

  private func connect(_ configuration: NodeConfiguration) {
    do {
      let ins = inbox.open(
        configuration.ins, restored: journal?.contents?.consumed ?? [:])
      let context = makePeerContext(configuration)
      let pairs = try outs.open(
        configuration.outs, in: context, stream: arguments.incarnation, journal: journal,
        journal?.contents, among: network?.peers
      ) { [weak self] in self?.fail($0) }
      try content.connect(
        outs: pairs, ins: ins, services: services(in: context), configuration)
      outs.holdUntilReported(pairs, [inbox.socket, feed.socket])
      inbox.welcomeEarlyPeers()
      // For subscribers that connected earlier.
      content.trace(to: feed)
      outs.tap(to: feed)
      control.send(.ready)
    } catch {
      fail("the node's pipes cannot be connected: \(error)")
    }
  }

  /// Opens the pipes that a changed topology adds.
  private func extend(by configuration: NodeConfiguration) {
    do {
      // Events that were taken before do not go through the new pipes.
      guard commitTurn() else { return }
      let pairs = try outs.open(
        configuration.outs.filter { !outs.contains($0.name) }, in: makePeerContext(configuration),
        stream: arguments.incarnation, journal: journal, try journal?.readCurrentContents(),
        among: network?.peers
      ) { [weak self] in self?.fail($0) }
      try content.extend(by: pairs)
      content.trace(to: feed)
      outs.tap(to: feed)
    } catch {
      fail("pipes cannot be added to the node: \(error)")
    }
  }

  /// Returns the process's own context, or a new one with capacity for the sockets of very many
  /// pipes.
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
      cut: { [inbox = network?.endpoints?.inbox ?? arguments.inbox] in LocalConnections.cut(inbox)
      },
      publish: { [weak self, feed] entry in
        let hasStateSubscriber = feed.hasStateSubscriber(isCommitted: false)
        guard hasStateSubscriber || feed.hasStepSubscriber, let entry = entry() else { return }
        if hasStateSubscriber { feed.enqueue(entry) }
        if feed.hasStepSubscriber { self?.compositeSteps.take(entry) }
      })
  }

  /// Stops gracefully. Embedded nodes and synchronized events in progress end first, if they end
  /// soon.
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
      inbox.unavailable = nil
      content.start()
      control.expectPings()
    case .drain:
      Failpoint.hit(.drainBefore)
      commitTurn()
      inbox.unavailable = "the node is stopping"
      content.stop()
      loop.schedule(after: Self.drainTimeout, for: self) { $0.perform(.drainTimeout) }
    case .leave: leave()
    case .connect, .extend, .ignore: break
    }
  }

  /// Binds the inbox and the feed for pipes and subscribers in the same process, too.
  func bindLocally(_ localPeer: LocalPeer) throws(TransportError) {
    try inbox.socket.bind(localPeer.inbox)
    try feed.socket.bind(localPeer.feed)
  }

  // MARK: Messages to the orchestrator

  private func sendHello(temporaryFailure: String? = nil) {
    let hello = NodeHello(
      node: arguments.node, pid: getpid(), incarnation: arguments.incarnation,
      description: content.description, phase: handshake.phase, failure: content.problem,
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
    outs.fill(&status)
    status.records = journal?.recordCount
    status.time = WallClock.nanoseconds
    status.recording = recorder.durations.count > 0 ? recorder.durations : nil
    return status
  }

  private func sendStatus(answering sequence: UInt64) {
    control.send(
      .status, sequence: sequence, count: network?.peers.number ?? 0,
      (try? JSONRecord.encode(status)) ?? [])
  }

  // MARK: The end

  private func fail(_ reason: String, code: Int32 = EXIT_FAILURE) {
    log.failure(reason)
    exitCode = code
    leave(because: reason)
  }

  /// Ends at once, as gracefully as possible.
  func end(because reason: String) {
    exitCode = 1
    leave(because: reason)
  }

  /// Says goodbye to all peers and closes the sockets. They send pending messages during their
  /// linger periods while the context ends.
  private func leave(because reason: String = "") {
    guard !hasLeft else { return }
    hasLeft = true
    embeddedNodes?.endAll(because: "carrier node '\(arguments.node)' ended")
    content.stop()
    if exitCode == 0 { recorder.finish() }
    outs.sayGoodbye()
    inbox.sayGoodbye()
    // An embedded node says goodbye last, in ``EmbeddedNodes``: its orchestrator may then start the next
    // process, here or on another host.
    if embeddedNodes != nil { control.sayGoodbye(because: reason, code: exitCode) }
    inbox.close(lingering: areAllStopping ? Self.shutdownLinger : .seconds(1))
    outs.close(lingering: areAllStopping ? Self.shutdownLinger : .milliseconds(300))
    if exitCode == 0, !content.hasUnrecordedChanges {
      feed.publishFinalReports()
      summaries.end()
    }
    feed.close()
    if let turns { loop.remove(turns) }
    guard embeddedNodes != nil else {
      journal?.leave()
      onLeave?(reason)
      return
    }
    control.close()
    loop.stop()
  }
}
