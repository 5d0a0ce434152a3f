import PipeJournal
import PipeTransport
import PipeWire

/// The sending ends of a node's pipes.
final class OutPipes {
  private let loop: PollLoop
  private let log: NodeLog
  private var pipes: [OutPipe] = []
  private let touchedPipes = TouchedPipes<OutPipe>()
  private var isReminderScheduled = false
  /// The pipes that carry step reports to coordinators.
  private var reportPipes: [OutPipe] = []
  /// The messages that are held back until coordinators have recorded the step reports.
  private weak var heldMessages: HeldMessages?
  /// The messages that were still held back at the last check. `positions`: the numbers of the step
  /// reports that the messages wait for. `since`: the start of the wait.
  private var currentHold:
    (positions: [UInt64], since: ContinuousClock.Instant, nextWarning: ContinuousClock.Instant)?
  private var isHoldCheckScheduled = false

  /// The time for which messages are held back before the node logs a warning.
  private static let holdWarningDelay: Duration = .seconds(5)

  init(loop: PollLoop, log: NodeLog) {
    self.loop = loop
    self.log = log
  }

  /// Opens the outbound pipes of the node.
  /// - Parameters:
  ///   - stream: The id of the numbering of events if the events are not recorded.
  ///   - contents: The contents of the journal; `nil` if the node has never entered a state.
  ///   - peers: The peers, which know the endpoints of the receivers; `nil` if all receivers have
  ///     fixed endpoints.
  ///   - onFailure: Called with the reason when a pipe cannot continue.
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
        among: touchedPipes, context: context, log: log)
      pipe.onFailure = onFailure
      loop.add(pipe.socket, for: pipe) { $0.readFrames() }
      loop.add(pipe.connections.socket, for: pipe) { $0.readConnections() }
      return (configuration, pipe)
    }
    pipes += pairs.map(\.1)
    for (configuration, pipe) in pairs {
      touchedPipes.touch(pipe)
      if configuration.steps == nil { pipe.socket.heldMessages = heldMessages }
    }
    peers?.addListener(self)
    return pairs
  }

  /// Whether a pipe of this name is open.
  func contains(_ name: String) -> Bool { pipes.contains { $0.name == name } }

  /// Holds back the messages of `sockets` and of all pipes that do not carry step reports. Sends
  /// each message as soon as the coordinators have recorded the reports of all steps before the
  /// message.
  func holdUntilReported(_ pairs: [(NodeConfiguration.Out, OutPipe)], _ sockets: [Socket]) {
    reportPipes = pairs.filter { $0.0.steps != nil }.map(\.1)
    guard !reportPipes.isEmpty else { return }
    let held = HeldMessages(
      latestCauseNumbers: { [reportPipes] in reportPipes.map(\.state.lastQueued) },
      recordedCauseNumbers: { [reportPipes] in reportPipes.map(\.state.lastAcknowledged) })
    heldMessages = held
    for report in reportPipes { report.onAcknowledged = { [weak held] in held?.release() } }
    for socket in sockets { socket.heldMessages = held }
    for (configuration, pipe) in pairs where configuration.steps == nil {
      pipe.socket.heldMessages = held
    }
  }

  /// Whether a stopping node can close all pipes without delay.
  var isDrained: Bool { pipes.allSatisfy(\.isDrained) }

  /// Fills in the status of the pipes.
  func fill(_ status: inout NodeStatus) {
    status.invalidFrames += pipes.reduce(0) { $0 + $1.invalidFrameCount }
    let isHoldOverdue =
      currentHold.map { heldMessages?.awaitedCauseNumbers == $0.positions } ?? false
    status.blocked = pipes.filter { $0.isFull || isHoldOverdue && isUnrecorded($0) }.map(\.name)
    status.outs = pipes.map(\.status)
  }

  /// Reports the events of the pipes to which clients of the feed subscribe.
  func tap(to feed: Feed) {
    for pipe in pipes { pipe.tap(to: feed.isTapped(pipe.name) ? feed : nil) }
  }

  // MARK: Recording and sending events

  var hasUnrecordedChanges: Bool { touchedPipes.pipes.contains { $0.hasUnrecordedChanges } }

  /// Whether the journal contains acknowledged events that can be deleted.
  var hasAcknowledgedRecords: Bool { touchedPipes.pipes.contains { $0.hasAcknowledgedRecords } }

  func record(into journal: Journal) throws {
    for pipe in touchedPipes.pipes { try pipe.record(into: journal) }
  }

  /// Sends the queued events. Called after they were recorded or, if there is no journal, at the
  /// end of the turn.
  func didRecord() {
    var isWaiting = false
    for pipe in touchedPipes.pipes {
      pipe.didRecord()
      pipe.flush()
      if pipe.isWaiting { isWaiting = true }
    }
    touchedPipes.keepOnly { $0.isUnrecorded }
    if isWaiting, !isReminderScheduled { scheduleReminder() }
    if heldMessages?.awaitedCauseNumbers != nil, !isHoldCheckScheduled { scheduleHoldCheck() }
  }

  private func isUnrecorded(_ pipe: OutPipe) -> Bool {
    pipe.state.pendingCount > 0 && reportPipes.contains { $0 === pipe }
  }

  private func scheduleHoldCheck() {
    isHoldCheckScheduled = true
    let positions = heldMessages?.awaitedCauseNumbers
    loop.schedule(after: Self.holdWarningDelay, for: self) { outs in
      outs.isHoldCheckScheduled = false
      outs.checkHeldMessages(since: positions)
    }
  }

  /// Logs a warning if the same messages are still held back. After each warning, the time to the
  /// next warning doubles.
  private func checkHeldMessages(since positions: [UInt64]?) {
    guard let awaited = heldMessages?.awaitedCauseNumbers else { return currentHold = nil }
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
    loop.schedule(after: SilentPeerPolicy.tickInterval, for: self) { outs in
      outs.isReminderScheduled = false
      for pipe in outs.pipes { pipe.checkSilence() }
      if outs.pipes.contains(where: { $0.isWaiting }) { outs.scheduleReminder() }
    }
  }

  // MARK: Closing the pipes

  /// Says goodbye to the receivers of all pipes.
  func sayGoodbye() {
    for pipe in pipes {
      if pipe.state.pendingCount > 0, !pipe.state.isDurable {
        log.warning("pipe '\(pipe.name)': \(pipe.state.pendingCount) events were not delivered")
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

/// The pipes that have changed in the current turn. A turn handles only these pipes, so the cost of
/// a turn does not depend on the number of all pipes.
final class TouchedPipes<Pipe: Touchable> {
  // A run-time exclusivity check would slow down each event. Only the loop's thread accesses the
  // value.
  @exclusivity(unchecked)
  private(set) var pipes: [Pipe] = []

  func touch(_ pipe: Pipe) {
    guard !pipe.isTouched else { return }
    pipe.isTouched = true
    pipes.append(pipe)
  }

  /// Removes the pipes that the turn has handled. Keeps the pipes for which `mustStay` is `true`,
  /// because the next turn must handle them again.
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

/// An element of ``TouchedPipes``. The flag prevents an element from being added twice.
protocol Touchable: AnyObject {
  var isTouched: Bool { get set }
}
