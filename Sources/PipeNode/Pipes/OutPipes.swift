import PipeJournal
import PipeTransport
import PipeWire

/// The sending ends of a node's pipes.
final class OutPipes {
  private let loop: PollLoop
  private let log: NodeLog
  private var pipes: [OutPipe] = []
  private let touched = TouchedPipes<OutPipe>()
  private var isReminderScheduled = false
  /// The pipes that carry step reports to coordinators, and the messages that wait for those
  /// reports.
  private var reportPipes: [OutPipe] = []
  private weak var held: HeldMessages?
  /// The reports that were still awaited at the last check, the start of the wait, and the time of
  /// the next warning.
  private var currentHold:
    (positions: [UInt64], since: ContinuousClock.Instant, nextWarning: ContinuousClock.Instant)?
  private var isHoldCheckScheduled = false

  /// How long messages are held back before the node logs a warning.
  private static let holdWarningDelay: Duration = .seconds(5)

  init(loop: PollLoop, log: NodeLog) {
    self.loop = loop
    self.log = log
  }

  /// - Parameters:
  ///   - stream: Identifies the numbering of this process's events if they are not recorded.
  ///   - contents: The contents of the journal.
  ///   - peers: The peers, which know the endpoints of receivers that may be on other hosts.
  ///   - onFailure: Called when a pipe cannot continue.
  func open(
    _ configurations: [NodeConfiguration.Out], in context: Context, stream: UInt64,
    journal: Journal?, _ contents: JournalContents?, among peers: Peers?,
    onFailure: @escaping (String) -> Void
  ) throws -> [(NodeConfiguration.Out, OutPipe)] {
    let recorded =
      try journal.map { try OutPipeRecord.all(of: configurations, in: $0, contents, log: log) }
      ?? [:]
    let pairs = try configurations.map { configuration in
      let pipe = try OutPipe(
        configuration,
        at: peers == nil
          ? PeerEndpoint(configuration.endpoint)
          : peers?.endpoints(of: configuration.receiver)?.inbox,
        stream: stream, journal: journal, recorded: recorded[configuration.name],
        among: touched, context: context, log: log)
      pipe.onFailure = onFailure
      loop.add(pipe.socket, for: pipe) { $0.read() }
      loop.add(pipe.connections.socket, for: pipe) { $0.readConnections() }
      return (configuration, pipe)
    }
    pipes += pairs.map(\.1)
    for (configuration, pipe) in pairs {
      touched.touch(pipe)
      if configuration.steps == nil { pipe.socket.held = held }
    }
    peers?.addListener(self)
    return pairs
  }

  /// Whether a pipe of this name is open.
  func contains(_ name: String) -> Bool { pipes.contains { $0.name == name } }

  /// Holds back the messages of these sockets, and of all pipes without reports, until coordinators have recorded the
  /// reports of the steps that led to them.
  func holdUntilReported(_ pairs: [(NodeConfiguration.Out, OutPipe)], _ sockets: [Socket]) {
    reportPipes = pairs.filter { $0.0.steps != nil }.map(\.1)
    guard !reportPipes.isEmpty else { return }
    let held = HeldMessages(
      latest: { [reportPipes] in reportPipes.map(\.state.queued) },
      recorded: { [reportPipes] in reportPipes.map(\.state.acknowledged) })
    self.held = held
    for report in reportPipes { report.onAcknowledged = { [weak held] in held?.release() } }
    for socket in sockets { socket.held = held }
    for (configuration, pipe) in pairs where configuration.steps == nil { pipe.socket.held = held }
  }

  /// Whether a stopping node need not wait for any of the pipes.
  var isDrained: Bool { pipes.allSatisfy(\.isDrained) }

  /// Fills in the status of the pipes.
  func fill(_ status: inout NodeStatus) {
    status.invalidFrames += pipes.reduce(0) { $0 + $1.invalidFrames }
    let isHoldOverdue = currentHold.map { held?.awaited == $0.positions } ?? false
    status.blocked = pipes.filter { $0.isFull || isHoldOverdue && isUnrecorded($0) }.map(\.name)
    status.outs = pipes.map(\.status)
  }

  /// Reports the events of the pipes that a subscriber asks for.
  func tap(to feed: Feed) {
    for pipe in pipes { pipe.tap(to: feed.isTapped(pipe.name) ? feed : nil) }
  }

  // MARK: Records

  var hasUnrecordedChanges: Bool { touched.pipes.contains { $0.hasUnrecordedChanges } }

  /// Whether the journal has events that need not be kept.
  var hasAcknowledgedRecords: Bool { touched.pipes.contains { $0.hasAcknowledgedRecords } }

  func record(into journal: Journal) throws {
    for pipe in touched.pipes { try pipe.record(into: journal) }
  }

  /// Sends the queued events, which are recorded or need no record.
  func didRecord() {
    var isWaiting = false
    for pipe in touched.pipes {
      pipe.didRecord()
      pipe.flush()
      if pipe.isWaiting { isWaiting = true }
    }
    touched.keepOnly { $0.isUnrecorded }
    if isWaiting, !isReminderScheduled { scheduleReminder() }
    if held?.awaited != nil, !isHoldCheckScheduled { scheduleHoldCheck() }
  }

  private func isUnrecorded(_ pipe: OutPipe) -> Bool {
    pipe.state.pending > 0 && reportPipes.contains { $0 === pipe }
  }

  private func scheduleHoldCheck() {
    isHoldCheckScheduled = true
    let positions = held?.awaited
    loop.schedule(after: Self.holdWarningDelay, for: self) { outs in
      outs.isHoldCheckScheduled = false
      outs.checkHeldMessages(since: positions)
    }
  }

  /// Logs that the same messages are still held back, then again after twice the time.
  private func checkHeldMessages(since positions: [UInt64]?) {
    guard let awaited = held?.awaited else { return currentHold = nil }
    defer { scheduleHoldCheck() }
    guard awaited == positions else { return currentHold = nil }
    let now = ContinuousClock.now
    let since = currentHold?.since ?? now - Self.holdWarningDelay
    guard now >= currentHold?.nextWarning ?? now else { return }
    currentHold = (awaited, since, now + (now - since))
    let coordinators = reportPipes.filter(isUnrecorded).map { "'\($0.receiver)'" }
    log.warning(
      "answers, events and states of this node have been blocked for \((now - since).shortText): "
        + "coordinator \(coordinators.joined(separator: ", ")) has not recorded the report of a "
        + "step; check that the coordinator is running"
    )
  }

  private func scheduleReminder() {
    isReminderScheduled = true
    loop.schedule(after: SilentPeerPolicy.interval, for: self) { outs in
      outs.isReminderScheduled = false
      for pipe in outs.pipes { pipe.checkSilence() }
      if outs.pipes.contains(where: { $0.isWaiting }) { outs.scheduleReminder() }
    }
  }

  // MARK: The end

  /// Says goodbye to the receivers.
  func sayGoodbye() {
    for pipe in pipes {
      if pipe.state.pending > 0, !pipe.state.isDurable {
        log.warning("pipe '\(pipe.name)': \(pipe.state.pending) events were not delivered")
      }
      pipe.close()
      pipe.connections.close()
    }
  }

  /// Closes the sockets. They continue to send during the linger period.
  func close(lingering linger: Duration) {
    for pipe in pipes { pipe.socket.close(lingering: linger) }
  }
}

extension OutPipes: PeerConnector {
  func disconnectPeer(from peer: String, at endpoints: PeerEndpoints) {
    for pipe in pipes where pipe.receiver == peer { pipe.disconnectPeer() }
  }

  func connectPeer(_ peer: String, at endpoints: PeerEndpoints) {
    for pipe in pipes where pipe.receiver == peer { pipe.connectPeer(at: endpoints.inbox) }
  }
}

/// The pipes that the current turn must handle because something happened to them. The cost of a
/// turn thus does not depend on the number of pipes.
final class TouchedPipes<Pipe: Touchable> {
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private(set) var pipes: [Pipe] = []

  func touch(_ pipe: Pipe) {
    guard !pipe.isTouched else { return }
    pipe.isTouched = true
    pipes.append(pipe)
  }

  /// Forgets the pipes that the turn has handled, except for pipes that the next turn must
  /// handle again.
  func keepOnly(satisfying mustStay: (Pipe) -> Bool) {
    var keptCount = 0
    for index in pipes.indices {
      let pipe = pipes[index]
      guard mustStay(pipe) else {
        pipe.isTouched = false
        continue
      }
      pipes[keptCount] = pipe
      keptCount += 1
    }
    pipes.removeLast(pipes.count - keptCount)
  }
}

/// An element of ``TouchedPipes``, listed at most once.
protocol Touchable: AnyObject {
  var isTouched: Bool { get set }
}
