import FoundationEssentials
import Glibc
import PipeJournal
import PipeSupport
import PipeTransport
import PipeWire

/// The sockets of one node and the loop that drives them; what it hosts is its content.
final class NodeShell {
  private let arguments: NodeArguments
  private let content: any NodeContent
  private let log: NodeLog
  private let signals: SignalDescriptor
  private let loop: PollLoop
  private let context: Context
  private let control: Socket
  private let inbox: NodeInbox
  private let feedSocket: Socket
  private let feed: Feed
  private var outs: [OutPipe] = []
  private var handshake = NodeHandshake()
  private var controlGarbage: UInt64 = 0
  private var pings: PingWatch?
  private var acknowledgementDue = false
  private var remindersDue = false
  private let journal: Journal?
  /// Entries that subscribers have not been told of, because they were not recorded.
  private var unpublished: [FeedEntry] = []
  private var hasLeft = false
  /// Whether it is to stop as soon as its content may.
  private var isStopDue = false
  private var exitCode: Int32 = 0

  /// How long a stopping node waits until its receivers have everything.
  private static let drainTimeout: Duration = .seconds(1)
  /// How long a stopping node waits until what others take part in has ended.
  private static let settleTimeout: Duration = .milliseconds(500)
  /// How long a started process waits for its orchestrator.
  private static let greetingTimeout: Duration = .seconds(30)
  /// How long it is to an orchestrator's first ping, at most.
  private static let firstPingTimeout: Duration = .seconds(1)
  /// How late an acknowledgement may be.
  private static let acknowledgementDelay: Duration = .milliseconds(20)

  init(
    arguments: NodeArguments, content: any NodeContent, journal: Journal?, loop: PollLoop,
    signals: SignalDescriptor, log: NodeLog
  ) throws(TransportError) {
    self.arguments = arguments
    self.content = content
    self.journal = journal
    self.loop = loop
    self.signals = signals
    self.log = log
    context = Context()
    control = try Socket(.dealer, in: context)
    try control.setRoutingID(WireName.node(arguments.node))
    let router = try Socket(.router, in: context)
    try router.setHighWaterMark(0)
    try router.setMaximumMessage(byteCount: WireLimits.messageByteCount)
    inbox = NodeInbox(
      socket: router, session: arguments.incarnation, content: content, log: log)
    feedSocket = try Socket(.publisher, in: context)
    feed = Feed(socket: feedSocket, node: arguments.node, incarnation: arguments.incarnation)
    // A subscriber that is slower by more than this misses states, and learns that it did.
    try feedSocket.setHighWaterMark(10_000)
    try router.bind(arguments.inbox)
    try feedSocket.bind(arguments.feed)
    try control.connect(arguments.control)
  }

  /// Runs the node until it is told to stop. Returns the process's exit code.
  func run() -> Int32 {
    feed.last = { [weak self] in self?.lastSteps() ?? [] }
    content.onEntry = { [weak self] in self?.entered(isCommitted: $0) }
    content.onEnd = { [weak self] reason in
      if let reason { self?.fail(reason) } else { self?.leave() }
    }
    watchSignals()
    loop.add(control, for: self) { $0.readControl() }
    loop.add(inbox.socket, for: inbox) { $0.read() }
    loop.add(feedSocket, for: feed) { $0.readSubscriptions() }
    loop.hasWork = { [weak self] in self?.hasWork == true }
    loop.beforeWait = { [weak self] in self?.turn() }
    loop.schedule(after: Self.greetingTimeout, for: self) { shell in
      if shell.handshake.phase == .greeting {
        shell.fail("no orchestrator answered at '\(shell.arguments.control)' within 30 s")
      }
    }
    sayHello()
    // The loop does not keep alive whom it calls back.
    withExtendedLifetime(self) { loop.run() }
    return exitCode
  }

  /// Tells the orchestrator why the node ends, and ends it.
  func leaveAtOnce(because reason: String) -> Int32 {
    sayHello(setback: reason)
    fail(reason)
    return exitCode
  }

  // MARK: Turns

  private var hasWork: Bool { handshake.phase == .running && content.hasWork }

  private func entered(isCommitted: Bool) {
    guard feed.isWanted(isCommitted: isCommitted), var entry = content.lastStep() else { return }
    entry.isCommitted = isCommitted
    unpublished.append(entry)
  }

  /// What a new subscriber is told at once.
  private func lastSteps() -> [FeedEntry] {
    guard content.hasUnrecorded else { return content.lastSteps() }
    // Told of with the record, which this turn makes.
    unpublished += content.lastSteps()
    return []
  }

  private func turn() {
    switch handshake.phase {
    case .running:
      if content.hasWork { Failpoint.hit(.stepBefore) }
      content.takeTurn()
      settle()
      if isStopDue, content.mayStop { stopIfDue() }
    case .draining:
      settle()
      if outs.allSatisfy(\.isDrained) { perform(.drained) }
    case .greeting, .configured, .ended: break
    }
  }

  /// Records what was taken, and then lets the world know: in this order, and only so, does nobody
  /// learn of a step that is gone when this process is killed.
  /// - Returns: `false` where that has ended the node.
  @discardableResult
  private func settle() -> Bool {
    guard !hasLeft, record() else { return false }
    content.becameRecorded()
    for entry in unpublished { feed.publish(entry) }
    unpublished.removeAll(keepingCapacity: true)
    for out in outs {
      out.becameRecorded()
      out.flush()
    }
    inbox.becameRecorded()
    scheduleAcknowledgement()
    scheduleReminders()
    return true
  }

  /// Returns `false` where the record could not be made, which ends the node.
  private func record() -> Bool {
    guard let journal, hasUnrecorded else { return true }
    Failpoint.hit(.stepAfter)
    content.markPrepared(in: journal)
    if hasUnrecorded {
      do {
        try write(to: journal)
      } catch {
        fail("\(error)")
        return false
      }
    }
    Failpoint.hit(.recordAfter)
    return true
  }

  private var hasUnrecorded: Bool {
    content.hasUnrecorded || inbox.pipes.contains(where: \.hasUnrecorded)
      || outs.contains(where: \.hasUnrecorded)
  }

  private func write(to journal: Journal) throws(JournalError) {
    try journal.record {
      try content.record(into: journal)
      for pipe in inbox.pipes { try pipe.record(into: journal) }
      for out in outs { try out.record(into: journal) }
    }
  }

  private func scheduleAcknowledgement() {
    guard !acknowledgementDue, inbox.pipes.contains(where: \.state.owesAcknowledgement)
    else { return }
    acknowledgementDue = true
    loop.schedule(after: Self.acknowledgementDelay, for: self) { shell in
      shell.acknowledgementDue = false
      shell.inbox.acknowledge()
    }
  }

  private func scheduleReminders() {
    guard !remindersDue, outs.contains(where: \.isWaiting) else { return }
    remindersDue = true
    loop.schedule(after: PeerSilence.interval, for: self) { shell in
      shell.remindersDue = false
      for out in shell.outs { out.lookAtSilence() }
    }
  }

  /// Where somebody has removed the journal, what is accepted from now on would be lost with this
  /// process: saves it, and leaves the rest to the next process.
  private func keepJournalInPlace() {
    guard let journal, !hasLeft, !journal.isInPlace else { return }
    do {
      try journal.writeAnew()
      fail(
        "its journal '\(journal.path)' was removed while it ran; it has been written anew from what "
          + "the node held, and nothing is lost")
    } catch {
      fail(
        "its journal '\(journal.path)' was removed while it ran, and what it had recorded is lost: it "
          + "cannot be written anew, \(error)")
    }
  }

  // MARK: Control

  private func sayHello(setback: String? = nil) {
    let hello = NodeHello(
      node: arguments.node, pid: getpid(), incarnation: arguments.incarnation,
      description: content.description, phase: handshake.phase, problem: content.problem,
      setback: setback)
    do {
      control.send(
        FrameHeader(.hello, number: arguments.incarnation),
        body: Array(try JSONEncoder().encode(hello)))
    } catch {
      fail("its description cannot be written as JSON: \(error)")
    }
  }

  private func readControl() {
    while control.receive({ _, bytes in
      do {
        let header = try FrameHeader(bytes)
        try handle(header, UnsafeRawBufferPointer(rebasing: bytes[FrameHeader.byteCount...]))
      } catch {
        controlGarbage += 1
        log.garbage(error, from: "the orchestrator", count: controlGarbage)
      }
    }) {}
  }

  private func handle(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws {
    switch header.kind {
    case .configure:
      guard handshake.handle(.configure) == .connect else { return }
      try connect(JSONDecoder().decode(NodeConfiguration.self, from: Data(body)))
    case .start: perform(.start)
    case .stop: stop()
    case .ping:
      if header.count > 0 { expectPing(within: .milliseconds(Int64(header.count))) }
      // What is told is recorded.
      if handshake.phase == .running { settle() }
      keepJournalInPlace()
      sendStatus(answering: header.sequence)
    case .greet: greeted(try JSONDecoder().decode(NodeGreeting.self, from: Data(body)))
    default: throw FrameError.kind(header.kind.rawValue)
    }
  }

  /// - Parameter interval: How long it is to the next ping, at most.
  private func expectPing(within interval: Duration) {
    let isWatched = pings != nil
    var watch = pings ?? PingWatch()
    watch.heard(at: BootClock.nanoseconds, interval: interval)
    pings = watch
    if !isWatched { lookForPing() }
  }

  private func lookForPing() {
    guard let due = pings?.due else { return }
    let wait = Duration.nanoseconds(max(0, due - BootClock.nanoseconds))
    loop.schedule(after: wait, for: self) { shell in
      if shell.pings?.isSilent(at: BootClock.nanoseconds) == true { shell.reconnectControl() }
      shell.lookForPing()
    }
  }

  /// Says hello on a new connection, which takes this node's name back from who else has used it.
  private func reconnectControl() {
    guard !hasLeft else { return }
    log.silence(
      of: "the orchestrator", at: arguments.control, as: WireName.node(arguments.node),
      count: pings?.silences ?? 0)
    control.disconnect(arguments.control)
    try? control.connect(arguments.control)
    sayHello()
  }

  /// Goes over to an orchestrator that came after the one that started this process.
  private func greeted(_ greeting: NodeGreeting) {
    greeting.redirectOutput()
    if let lifeline = greeting.lifeline() {
      loop.add(descriptor: lifeline) { kill(getpid(), SIGKILL) }
    }
    sayHello()
  }

  /// Stops in order: what others take part in is to end first, if that is soon.
  private func stop() {
    guard handshake.phase == .running else { return perform(.stop) }
    if isStopDue { return }
    content.prepareToStop()
    guard !content.mayStop else { return perform(.stop) }
    isStopDue = true
    loop.schedule(after: Self.settleTimeout, for: self) { $0.stopIfDue() }
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
      expectPing(within: Self.firstPingTimeout)
    case .drain:
      Failpoint.hit(.drainBefore)
      settle()
      inbox.unavailable = "it is stopping"
      content.stop()
      loop.schedule(after: Self.drainTimeout, for: self) { $0.perform(.drainTimeout) }
    case .leave: leave()
    case .connect, .ignore: break
    }
  }

  private func connect(_ configuration: NodeConfiguration) {
    do {
      let ins = inbox.open(
        configuration.ins, restored: journal?.contents?.consumed ?? [:])
      var pairs: [(NodeConfiguration.Out, OutPipe)] = []
      for out in configuration.outs {
        let pipe = try OutPipe(
          out, stream: arguments.incarnation, journal: journal, context: context, log: log)
        pipe.onFailure = { [weak self] in self?.fail($0) }
        loop.add(pipe.socket, for: pipe) { $0.read() }
        loop.add(pipe.connections.socket, for: pipe) { $0.readConnections() }
        pairs.append((out, pipe))
      }
      outs = pairs.map(\.1)
      try content.connect(outs: pairs, ins: ins)
      try content.attach(to: services, configuration)
      inbox.participant = content.participant
      inbox.welcomeEarly()
      control.send(FrameHeader(.ready, number: arguments.incarnation))
    } catch {
      fail("its pipes cannot be connected: \(error)")
    }
  }

  private var services: NodeServices {
    NodeServices(
      loop: loop, context: context, incarnation: arguments.incarnation,
      finishTurn: { [weak self] in self?.finishTurn() == true },
      send: { [socket = inbox.socket] header, body, peer in
        socket.send(header, body: body, to: peer)
      },
      cut: { [inbox = arguments.inbox] in LocalConnections.cut(inbox) },
      publish: { [weak self] entry in
        guard let self, feed.isWanted(isCommitted: false), let entry = entry() else { return }
        unpublished.append(entry)
      })
  }

  /// Records what was taken in the midst of a turn, and takes what is left of it.
  /// - Returns: `false` where that has ended the node.
  private func finishTurn() -> Bool {
    if settle(), content.hasWork { turn() }
    return !hasLeft
  }

  private func sendStatus(answering sequence: UInt64) {
    var status = NodeStatus()
    content.fill(&status)
    status.garbage = inbox.garbage + controlGarbage + outs.reduce(0) { $0 + $1.garbage }
    status.gaps = inbox.pipes.reduce(0) { $0 + $1.gaps }
    status.blocked = outs.filter(\.isFull).map(\.name)
    status.outs = outs.map(\.status)
    status.records = journal?.recordCount
    let body = (try? JSONEncoder().encode(status)).map { Array($0) } ?? []
    control.send(
      FrameHeader(.status, sequence: sequence, number: arguments.incarnation), body: body)
  }

  // MARK: The end

  private func fail(_ reason: String) {
    log.failure(reason)
    exitCode = 1
    leave(because: reason)
  }

  /// Says goodbye to everybody and closes the sockets, which send what they hold within their
  /// linger while the context ends.
  private func leave(because reason: String = "") {
    guard !hasLeft else { return }
    hasLeft = true
    content.stop()
    // What is acknowledged since the last record needs not be kept.
    let hasLeftover = content.hasLeftover || outs.contains(where: \.hasAcknowledged)
    if exitCode == 0, hasLeftover, let journal { try? write(to: journal) }
    for out in outs {
      if out.state.pending > 0, !out.state.isDurable {
        log.warning("pipe '\(out.name)': \(out.state.pending) events were not delivered")
      }
      out.close()
      out.connections.socket.close()
    }
    inbox.close()
    control.send(
      FrameHeader(.stopped, number: arguments.incarnation), body: Array(reason.utf8))
    // The goodbye to a sender decides whether its events count as lost: on a busy machine it may take
    // longer. The others may wait for a peer that is gone, for all of their linger.
    inbox.socket.setLinger(milliseconds: 1_000)
    inbox.socket.close()
    for socket in outs.map(\.socket) + [feedSocket, control] {
      socket.setLinger(milliseconds: 300)
      socket.close()
    }
    loop.stop()
  }

  private func watchSignals() {
    loop.add(descriptor: signals.descriptor, for: self) { shell in
      while shell.signals.next() != nil {}
      shell.stop()
    }
  }
}
