import Glibc
import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// One node: steered by its orchestrator, it takes what its content can take in turns, and tells the
/// world of a turn once that is recorded.
final class NodeShell {
  private let arguments: NodeArguments
  private let content: HostedContent
  private let log: NodeLog
  private let place: NodePlace
  /// What it is beside that where it is bound for other hosts.
  private let offHost: NodeOffHost?
  private var loop: PollLoop { place.loop }
  let control: ControlLink
  /// The other nodes in its process; `nil` where it is one of these itself.
  private let lodgers: Lodgers?
  private let inbox: NodeInbox
  private let outs: OutPipes
  private let feed: Feed
  private lazy var summaries = NodeSummaries(of: content, to: feed) { [unowned self] in status }
  private lazy var compositeSteps = ToldCompositeSteps(to: feed)
  private let journal: Journal?
  private let recorder: NodeRecorder
  private var handshake = NodeHandshake()
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private var hasLeft = false
  /// The last of the pings that are not answered yet.
  private var unansweredPing: UInt64?
  /// Whether it is to stop as soon as its content may.
  @exclusivity(unchecked)
  private var isStopDue = false
  /// Whether all others stop as well.
  private var areAllStopping = false
  private(set) var exitCode: Int32 = 0
  private var turns: PollLoop.Registration?
  /// Called when a lodger has left, with what is to be told of that: the loop goes on.
  var onLeave: ((_ reason: String) -> Void)?

  /// How long a stopping node waits until its receivers have everything.
  private static let drainTimeout: Duration = .seconds(1)
  /// How long a stopping node waits until what others take part in has ended.
  private static let partTimeout: Duration = .milliseconds(500)
  /// What each pipe takes at most: its own socket, and those that watch its connections.
  private static let socketsOfPipe = 5
  /// How long its goodbyes wait where all others stop as well: a peer that was faster does not take them.
  private static let lastLinger: Duration = .milliseconds(100)
  /// How long a started process waits for its orchestrator.
  private static let greetingTimeout: Duration = .seconds(30)

  /// - Parameter lodgers: Who else is to live in its process; `nil` where it is one of them.
  init(
    arguments: NodeArguments, content: HostedContent, journal: Journal?, at place: NodePlace,
    by link: NodeLink, lodgers: Lodgers?, log: NodeLog
  ) throws(TransportError) {
    self.arguments = arguments
    self.content = content
    self.journal = journal
    self.place = place
    self.lodgers = lodgers
    self.log = log
    let (loop, context) = (place.loop, place.context)
    offHost = link.keys.map { NodeOffHost($0, log: log) }
    control = link.control
    inbox = try NodeInbox(
      session: arguments.incarnation, content: content, context: context, loop: loop, log: log)
    feed = try Feed(
      node: arguments.node, incarnation: arguments.incarnation, context: context, loop: loop)
    outs = OutPipes(loop: loop, log: log)
    recorder = NodeRecorder(
      journal, content: content, inbox: inbox, outs: outs, loop: loop)
    if let offHost {
      offHost.bind(inbox.socket, feed.socket, as: arguments)
    } else if place.host == nil {
      try inbox.socket.bind(arguments.inbox)
      try feed.socket.bind(arguments.feed)
    } else {
      try inbox.socket.bindKeepingFile(arguments.inbox)
      try feed.socket.bindKeepingFile(arguments.feed)
    }
    try control.connect()
  }

  /// Runs the node, and with it the loop, until it is told to stop. Returns the process's exit code.
  func run(stoppingOn signals: SignalDescriptor) -> Int32 {
    loop.add(descriptor: signals.descriptor, for: self) { shell in
      while signals.next() != nil {}
      shell.stop()
    }
    begin()
    // The loop does not keep alive whom it calls back.
    withExtendedLifetime(self) { loop.run() }
    return exitCode
  }

  /// Lets the loop run the node.
  func begin() {
    recorder.onFailure = { [weak self] in self?.fail("\($0)", code: $0.exitCode) }
    feed.last = { [weak self] in self?.lastSteps() ?? [] }
    feed.onChange = { [weak self] in self?.feedChanged(asksForSummaries: $0) }
    content.observe(
      onEntry: { [weak self, feed] isCommitted in
        // Mostly nobody asks for states, and the question costs less than a weak reference.
        if feed.isWanted(isCommitted: isCommitted) { self?.entered(isCommitted: isCommitted) }
      },
      onEnd: { [weak self] reason in
        if let reason { self?.fail(reason) } else { self?.leave() }
      })
    control.onFrame = { [weak self] in try self?.handle($0, $1) }
    control.onRest = { [weak self] in self?.answerPing() }
    control.onReconnection = { [weak self] in self?.sayHello() }
    control.run()
    loop.add(inbox.socket, for: inbox) { $0.read() }
    loop.add(feed.socket, for: feed) { $0.readSubscriptions() }
    turns = loop.addTurns(for: self, hasWork: { $0.hasWork }, take: { $0.turn() })
    loop.schedule(after: Self.greetingTimeout, for: self) { shell in
      if shell.handshake.phase == .greeting {
        shell.fail(
          "no orchestrator answered at '\(shell.arguments.control)' within 30 s"
            + (shell.offHost == nil ? "" : NodeOffHost.reasonsForSilence))
      }
    }
    sayHello()
  }

  /// Tells the orchestrator why the node ends, and ends it.
  @discardableResult
  func leaveAtOnce(because reason: String, code: Int32 = EXIT_FAILURE) -> Int32 {
    sayHello(setback: reason)
    fail(reason, code: code)
    return exitCode
  }

  var name: String { arguments.node }

  /// Why it must end at once, where another start may go better: its sockets cannot be bound.
  var obstacle: String? { offHost?.obstacle }

  // MARK: Turns

  private var hasWork: Bool { handshake.isRunning && content.hasWork }

  private func entered(isCommitted: Bool) {
    guard var entry = content.calls.lastStep() else { return }
    entry.isCommitted = isCommitted
    feed.keep(entry)
  }

  /// What a new subscriber is told at once.
  private func lastSteps() -> [FeedEntry] {
    guard content.hasUnrecorded else { return content.lastSteps }
    // Told of with the record, which this turn makes.
    for entry in content.lastSteps { feed.keep(entry) }
    return []
  }

  /// Somebody has come, or gone, who listens.
  private func feedChanged(asksForSummaries: Bool) {
    if asksForSummaries { summaries.ask() }
    content.trace(to: feed)
    outs.tap(to: feed)
  }

  private func turn() {
    switch handshake.phase {
    case .running:
      if content.hasWork { Failpoint.hit(.stepBefore) }
      content.takeTurn()
      commitTurn()
      if isStopDue, content.mayStop { stopIfDue() }
    case .draining:
      commitTurn()
      if outs.isDrained { perform(.drained) }
    case .greeting, .configured, .ended: break
    }
  }

  /// Records what was taken, and then lets the world know: in this order, and only so, does nobody
  /// learn of a step that is gone when this process is killed.
  /// - Returns: `false` where that has ended the node.
  @discardableResult
  private func commitTurn() -> Bool {
    guard !hasLeft, record() else { return false }
    content.becameRecorded()
    feed.publishKept()
    outs.becameRecorded()
    inbox.becameRecorded()
    summaries.turnEnded()
    return true
  }

  /// Returns `false` where the record could not be made, which ends the node.
  private func record() -> Bool {
    do {
      try recorder.record()
      return true
    } catch {
      fail("\(error)", code: error.exitCode)
      return false
    }
  }

  /// Commits a turn in its midst, and takes what is left of it.
  /// - Returns: `false` where that has ended the node.
  private func finishTurn() -> Bool {
    if commitTurn(), content.hasWork { turn() }
    return !hasLeft
  }

  // MARK: What the orchestrator says

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
    case .stop: lodgers?.stop(String(decoding: body, as: UTF8.self))
    case .lodge:
      guard let lodgers else { throw FrameError.kind(header.kind.rawValue) }
      lodgers.admit(try JSONRecord.decode(NodeLodging.self, from: body), to: self)
    case .ping:
      if header.count > 0 { control.expectPing(within: .milliseconds(Int64(header.count))) }
      unansweredPing = max(unansweredPing ?? 0, header.sequence)
    case .neighbours:
      guard let offHost else { throw FrameError.kind(header.kind.rawValue) }
      // A lodger's pipes may be closed before its connection is.
      if !hasLeft { try offHost.neighbours.take(body, number: header.sequence) }
    case .greet: greeted(try JSONRecord.decode(NodeGreeting.self, from: body))
    default: throw FrameError.kind(header.kind.rawValue)
    }
  }

  /// One answer to all pings that have come: a node that is slow to tell its status is not asked faster
  /// than it can tell.
  private func answerPing() {
    guard let sequence = unansweredPing, !hasLeft else { return }
    unansweredPing = nil
    // What is told is recorded.
    if handshake.isRunning { commitTurn() }
    if !hasLeft, let reason = recorder.keepInPlace() { fail(reason) }
    sayStatus(answering: sequence)
  }

  /// Goes over to an orchestrator that came after the one that started this process.
  private func greeted(_ greeting: NodeGreeting) {
    greeting.redirectOutput()
    offHost?.neighbours.orchestratorHasChanged()
    if let lifeline = greeting.lifeline() {
      loop.add(descriptor: lifeline) { kill(getpid(), SIGKILL) }
    }
    sayHello()
  }

  private func connect(_ configuration: NodeConfiguration) {
    do {
      let ins = inbox.open(
        configuration.ins, restored: journal?.contents?.consumed ?? [:])
      let context = contextOfPeers(configuration)
      let pairs = try outs.open(
        configuration.outs, in: context, stream: arguments.incarnation, journal: journal,
        journal?.contents, among: offHost?.neighbours
      ) { [weak self] in self?.fail($0) }
      try content.connect(
        outs: pairs, ins: ins, services: services(in: context), configuration)
      outs.holdUntilReported(pairs, [inbox.socket, feed.socket])
      inbox.welcomeEarly()
      // Who has come before.
      content.trace(to: feed)
      outs.tap(to: feed)
      control.say(.ready)
    } catch {
      fail("its pipes cannot be connected: \(error)")
    }
  }

  /// Opens the pipes that a topology which was changed has more.
  private func extend(by configuration: NodeConfiguration) {
    do {
      // What was taken before does not go through them.
      guard commitTurn() else { return }
      let pairs = try outs.open(
        configuration.outs.filter { !outs.contains($0.name) }, in: contextOfPeers(configuration),
        stream: arguments.incarnation, journal: journal, try journal?.readAgain(),
        among: offHost?.neighbours
      ) { [weak self] in self?.fail($0) }
      try content.extend(by: pairs)
      content.trace(to: feed)
      outs.tap(to: feed)
    } catch {
      fail("pipes cannot be added to it: \(error)")
    }
  }

  /// The process's own context, or one with room for the sockets of very many pipes.
  private func contextOfPeers(_ configuration: NodeConfiguration) -> Context {
    configuration.outs.count * Self.socketsOfPipe <= place.roomForPeers ? place.context : Context()
  }

  private func services(in context: Context) -> NodeServices {
    NodeServices(
      loop: loop, context: context, host: place.host, neighbours: offHost?.neighbours,
      finishTurn: { [weak self] in self?.finishTurn() == true },
      send: { [socket = inbox.socket] header, body, peer in
        socket.send(header, body: body, to: peer)
      },
      cut: { [inbox = offHost?.endpoints?.inbox ?? arguments.inbox] in LocalConnections.cut(inbox)
      },
      publish: { [weak self, feed] entry in
        let isWanted = feed.isWanted(isCommitted: false)
        guard isWanted || feed.areStepsWanted, let entry = entry() else { return }
        if isWanted { feed.keep(entry) }
        if feed.areStepsWanted { self?.compositeSteps.take(entry) }
      })
  }

  /// Stops in order: its lodgers, and what others take part in, are to end first, if that is soon.
  func stop() {
    lodgers?.close()
    if let lodgers, lodgers.areThere { return lodgers.stopAll { [weak self] in self?.stop() } }
    guard handshake.isRunning else { return perform(.stop) }
    if isStopDue { return }
    content.prepareToStop()
    guard !content.mayStop else { return perform(.stop) }
    isStopDue = true
    loop.schedule(after: Self.partTimeout, for: self) { $0.stopIfDue() }
  }

  private func stopIfDue() {
    guard isStopDue else { return }
    isStopDue = false
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
      inbox.unavailable = "it is stopping"
      content.stop()
      loop.schedule(after: Self.drainTimeout, for: self) { $0.perform(.drainTimeout) }
    case .leave: leave()
    case .connect, .extend, .ignore: break
    }
  }

  /// Takes pipes and listeners in the same process, too.
  func bindForNeighbours(_ own: NeighbouringNode) throws(TransportError) {
    try inbox.socket.bind(own.inbox)
    try feed.socket.bind(own.feed)
  }

  // MARK: What it says

  private func sayHello(setback: String? = nil) {
    let hello = NodeHello(
      node: arguments.node, pid: getpid(), incarnation: arguments.incarnation,
      description: content.description, phase: handshake.phase, problem: content.problem,
      setback: setback, endpoints: offHost?.endpoints, opensPipes: true)
    do {
      control.say(.hello, try JSONRecord.encode(hello))
    } catch {
      fail("its description cannot be written as JSON: \(error)")
    }
  }

  private var status: NodeStatus {
    var status = NodeStatus()
    content.fill(&status)
    status.garbage += control.garbage
    inbox.fill(&status)
    outs.fill(&status)
    status.records = journal?.recordCount
    status.time = WallClock.nanoseconds
    status.recording = recorder.durations.count > 0 ? recorder.durations : nil
    return status
  }

  private func sayStatus(answering sequence: UInt64) {
    control.say(
      .status, sequence: sequence, count: offHost?.neighbours.number ?? 0,
      (try? JSONRecord.encode(status)) ?? [])
  }

  // MARK: The end

  private func fail(_ reason: String, code: Int32 = EXIT_FAILURE) {
    log.failure(reason)
    exitCode = code
    leave(because: reason)
  }

  /// Ends at once, in such order as there is.
  func end(because reason: String) {
    exitCode = 1
    leave(because: reason)
  }

  /// Says goodbye to everybody and closes the sockets, which send what they hold within their
  /// linger while the context ends.
  private func leave(because reason: String = "") {
    guard !hasLeft else { return }
    hasLeft = true
    lodgers?.endAll(because: "'\(arguments.node)', in whose process it lives, ended")
    content.stop()
    if exitCode == 0 { recorder.finish() }
    outs.sayGoodbye()
    inbox.sayGoodbye()
    // The last word of a lodger: whoever hears it may start the next one, here or elsewhere.
    if lodgers != nil { control.sayGoodbye(because: reason, code: exitCode) }
    inbox.close(lingering: areAllStopping ? Self.lastLinger : .seconds(1))
    outs.close(lingering: areAllStopping ? Self.lastLinger : .milliseconds(300))
    if exitCode == 0, !content.hasUnrecorded {
      feed.tellRest()
      summaries.end()
    }
    feed.close()
    if let turns { loop.remove(turns) }
    guard lodgers != nil else {
      journal?.leave()
      onLeave?(reason)
      return
    }
    control.close()
    loop.stop()
  }
}
