import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// A node as a participant in synchronized events: the functions that its inbox and its shell call.
protocol NodeParticipant: AnyObject {
  /// The routing id under which the coordinator is connected to the inbox.
  var peer: [UInt8] { get }
  /// Whether the node must not stop yet, because it waits for the outcome of an event.
  var isFrozen: Bool { get }
  /// Handles a new connection of the coordinator: its first connection, or a reconnection.
  func connected()
  /// Handles a frame from the coordinator.
  func received(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws(FrameError)
  /// Makes prepared steps durable in the step marker file if they do not require a record in the
  /// journal.
  func markPrepared(in journal: Journal)
}

extension NodeParticipant { func markPrepared(in journal: Journal) {} }

extension NodeConfiguration.Participant {
  /// Returns the reason to refuse an event that was sent to the node instead of a composite.
  /// Returns `nil` if the node may take the event alone.
  func reasonToRefuse(unsynchronized event: String?) -> String? {
    guard let event, let composites = events[event] else { return nil }
    let names = composites.joined(separator: "' or '")
    return RoutingError.requiresComposite(event, composite: names).description
  }
}

/// A node as a participant in synchronized events. Performs the decisions of
/// ``ParticipantStateMachine``.
///
/// The participant's records are part of the node's journal. Each prepared step and each completed
/// step is recorded with its transaction before it is reported to the coordinator.
final class Participant: NodeParticipant {
  /// The routing id under which the coordinator is connected to the inbox.
  let peer: [UInt8]
  /// Whether all inputs except the coordinator's messages must remain in their queues.
  @exclusivity(unchecked)
  private(set) var isFrozen: Bool
  /// The numbers of messages that were exchanged with the coordinator.
  @exclusivity(unchecked)
  private(set) var messages = NodeStatus.Messages()
  private let configuration: NodeConfiguration.Participant
  private unowned let machine: any ParticipatingMachine
  private let steps: ParticipatingSteps
  private let services: NodeServices
  private let log: NodeLog
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var stateMachine: ParticipantStateMachine
  @exclusivity(unchecked)
  private var records = ParticipantRecords()
  @exclusivity(unchecked)
  private var coordinator: KnownCoordinator
  @exclusivity(unchecked)
  private var emitted = EmittedEvents()
  private lazy var inDoubtWatch = InDoubtWatch(
    isInDoubt: stateMachine.isPrepared, coordinator: configuration.coordinator, loop: services.loop,
    log: log
  ) { [unowned self] in handleQueryTimer() }
  @exclusivity(unchecked)
  private var isStarted = false
  /// Whether the coordinator has connected to this process. Earlier messages were meant for the
  /// previous process.
  @exclusivity(unchecked)
  private var isConnected = false
  @exclusivity(unchecked)
  private var reportedVersion: UInt64
  /// The transactions that are recorded but not acknowledged. The next yes vote implies their
  /// acknowledgement. Otherwise the acknowledgement is sent before the next message, or after a
  /// short delay.
  @exclusivity(unchecked)
  private var unacknowledged: [TransactionID] = []
  @exclusivity(unchecked)
  private var acknowledgementTimer: TimerQueue.ID?
  /// The timer for the time limit of the running transition; `nil` if there is none.
  @exclusivity(unchecked)
  private var limitTimer: TimerQueue.ID?

  /// The maximum delay of an acknowledgement. It is shorter than the interval after which the
  /// coordinator repeats the commit, but so long that another message usually comes first. The
  /// acknowledgement then does not wake the coordinator's process separately.
  private static let acknowledgementDelay: Duration = .milliseconds(100)

  init(
    _ configuration: NodeConfiguration.Participant, machine: any ParticipatingMachine,
    steps: ParticipatingSteps, restored: JournalContents.Participant?, version: UInt64,
    services: NodeServices, log: NodeLog
  ) {
    self.configuration = configuration
    peer = Array(WireName.coordinator(configuration.coordinator).utf8)
    stateMachine = ParticipantStateMachine(
      prepared: restored?.preparedStep, applied: restored?.lastApplied ?? .zero, version: version)
    isFrozen = !stateMachine.acceptsInputs
    coordinator = KnownCoordinator(
      configuration.coordinator, recorded: restored?.coordinator)
    reportedVersion = version
    self.machine = machine
    self.steps = steps
    self.services = services
    self.log = log
  }

  /// Returns the names of the composites that synchronize an event; `nil` if no composite does.
  func composites(of event: String) -> [String]? { configuration.events[event] }

  // MARK: Prepared step

  /// Whether the node has asked for the outcome of its prepared transaction, and has received no
  /// answer.
  var isInDoubt: Bool { inDoubtWatch.isInDoubt }

  /// Returns the transaction that the node is evaluating, is prepared for, or is applying; `nil` if
  /// there is none.
  func prepared(of node: String) -> InDoubtTransaction? {
    guard let (transaction, event) = stateMachine.transactionInProgress else { return nil }
    let body = TransactionBody(event)
    return InDoubtTransaction(
      participant: node, composite: body?.composite ?? "", event: body?.eventName ?? "",
      transaction: transaction, since: inDoubtWatch.preparedAt)
  }

  /// Returns the transaction for which the node is in doubt; `nil` if there is none.
  func inDoubt(of node: String) -> InDoubtTransaction? { isInDoubt ? prepared(of: node) : nil }

  private func handleQueryTimer() {
    inDoubtWatch.note(.silence, of: stateMachine.preparedStep)
    perform(stateMachine.queryTimerFired())
  }

  // MARK: Messages from the coordinator

  /// Notes that the machine has started. The coordinator may have connected before.
  func started() {
    isStarted = true
    inDoubtWatch.note(.restart, of: stateMachine.preparedStep)
    perform(stateMachine.start())
    join()
  }

  /// Handles a new connection of the coordinator: its first connection, or a reconnection.
  func connected() {
    isConnected = true
    // A node that has not started yet joins when it starts.
    guard isStarted else { return }
    inDoubtWatch.note(.lostConnection, of: stateMachine.preparedStep)
    join()
    // A coordinator without a journal may have sent a commit just before its process ended. The
    // coordinator's new process does not know this commit, and learns of the step from the node's
    // state.
    machine.reportState()
  }

  private func join() {
    // This message is not counted, because it is for the connection, not for an event.
    let join = ParticipantJoin(
      watermark: stateMachine.watermark,
      prepared: stateMachine.preparedStep.map { [$0.transaction] } ?? [],
      history: coordinator.history(lastCommitted: stateMachine.lastCommitted))
    let frame = join.frame
    _ = services.send(frame.header, frame.body, peer)
    for event in emitted.waiting { send(event.request) }
    perform(stateMachine.connected())
  }

  /// Handles a frame from the coordinator.
  func received(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer
  ) throws(FrameError) {
    guard isConnected else { return }
    messages.received += 1
    if case .reply = header.kind { return try answered(header, body) }
    try header.checkEpoch(at: WallClock.nanoseconds)
    let message = try CoordinatorMessage(header, body)
    guard isStarted else { return }
    switch message {
    case .prepare(let transaction, let event, let wantsChange, let emittedNumber):
      guard finishTaking() else { return }
      hitFailpoint(.prepareBefore)
      if coordinator.note(
        CoordinatorMessage.journal(header, body), lastApplied: stateMachine.lastApplied)
      {
        records.change(coordinator.recorded)
      }
      // If the effect that has emitted the event no longer wants it, the node refuses the event.
      let isWanted = emittedNumber.map { emitted.isWaiting($0) { machine.wants($0) } } ?? true
      let evaluate =
        isWanted ? steps.evaluate : { _ throws(ParticipantRefusal) in throw .withdrawn }
      perform(
        stateMachine.prepare(
          transaction, event: event, wantsChange: wantsChange, evaluate: evaluate))
    case .commit(let transaction):
      hitFailpoint(.commitReceived)
      inDoubtWatch.note(.committed, of: transaction, prepared: stateMachine.preparedStep)
      let isRepeated = transaction <= stateMachine.lastApplied
      perform(stateMachine.commit(transaction))
      if isRepeated { acknowledge() }
    case .abort(let transaction):
      hitFailpoint(.abortReceived)
      inDoubtWatch.note(.aborted, of: transaction, prepared: stateMachine.preparedStep)
      if !stateMachine.isTakingStep, stateMachine.step?.transaction == transaction {
        records.abort(transaction)
      }
      perform(stateMachine.abort(transaction))
    case .deliver(let transaction, let event):
      guard finishTaking() else { return }
      perform(stateMachine.deliver(transaction, event: event, evaluate: steps.evaluate))
    }
  }

  /// Finishes the step of the last commit before the node handles a new request. The request refers
  /// to the state after this commit. Inputs that have waited since the node was prepared are
  /// processed first.
  /// - Returns: Whether the node is still running.
  private func finishTaking() -> Bool {
    !stateMachine.isTakingStep || services.finishTurn() && isStarted
  }

  private func perform(_ actions: [ParticipantStateMachine.Action]) {
    isFrozen = !stateMachine.acceptsInputs
    let wasInDoubt = isInDoubt
    if !stateMachine.isPrepared { inDoubtWatch.isInDoubt = false }
    var isDisconnected = false
    for action in actions {
      switch action {
      case .record(let record):
        records.append(record, isCommitted: stateMachine.isApplying)
        if case .prepared = record { inDoubtWatch.prepared() }
      case .enter(let step):
        if let event = emitted.take(step.transaction) { machine.noteTaken(event) }
        steps.enter(step, stateMachine.isApplying)
      case .send(.ack(let transaction)):
        unacknowledged.append(transaction)
        scheduleAcknowledgement()
      case .send(let message):
        // A message that cannot be sent is not repeated. If the node is prepared, it will ask for
        // the outcome. If an evaluation is running, the evaluation is abandoned.
        if case .unroutable = send(message) { isDisconnected = true }
      case .startLimit(let transaction, let limit):
        inDoubtWatch.prepared()
        startLimit(limit, of: transaction)
      case .stopLimit: stopLimit()
      case .rollBack: steps.rollBack()
      // The next turn processes the waiting inputs.
      case .unfreeze: break
      case .startQueryTimer: inDoubtWatch.startTimer()
      case .stopQueryTimer: inDoubtWatch.stopTimer()
      case .report(let problem): report(problem)
      }
    }
    // If the node is no longer in doubt because it applies the step, the new state will be
    // published anyway.
    if wasInDoubt != isInDoubt, stateMachine.isPrepared || stateMachine.acceptsInputs {
      machine.inDoubtChanged()
    }
    if isDisconnected { perform(stateMachine.disconnected()) }
  }

  // MARK: Asynchronous transitions

  /// Handles the result of an asynchronous evaluation: the step that the event would cause, or the
  /// refusal.
  func evaluated(_ result: Result<ParticipantMove, ParticipantRefusal>) {
    guard isStarted, let transaction = stateMachine.transactionInProgress?.transaction else {
      return
    }
    hitFailpoint(.evaluateAfter)
    perform(stateMachine.evaluated(transaction, result))
  }

  /// Notifies the coordinator that the node may evaluate again, because an abandoned transition has
  /// returned.
  func reportReadyToEvaluate() {
    guard isStarted else { return }
    perform(stateMachine.stepped())
  }

  private func startLimit(_ limit: Duration, of transaction: TransactionID) {
    stopLimit()
    limitTimer = services.loop.schedule(after: limit, for: self) { participant in
      participant.limitTimer = nil
      participant.limitPassed(limit, of: transaction)
    }
  }

  private func stopLimit() {
    if let limitTimer { services.loop.cancel(limitTimer) }
    limitTimer = nil
  }

  private func limitPassed(_ limit: Duration, of transaction: TransactionID) {
    let event =
      stateMachine.transactionInProgress.flatMap { TransactionBody($0.event)?.eventName } ?? ""
    let actions = stateMachine.limitPassed(transaction)
    guard !actions.isEmpty else { return }
    log.note(
      "synchronized event \(transaction), '\(event)', is refused: its transition did not return "
        + "within \(limit.shortText)")
    perform(actions)
  }

  // MARK: Messages to coordinators

  @discardableResult
  private func send(_ message: ParticipantMessage) -> Socket.SendResult {
    if case .yes(let transaction, _) = message { unacknowledged.removeAll { $0 < transaction } }
    let sent = send(message.frame)
    switch message {
    case .yes: hitFailpoint(.yesAfter)
    case .no: hitFailpoint(.noAfter)
    case .query:
      inDoubtWatch.isInDoubt = true
      hitFailpoint(.querySent)
    case .ack: hitFailpoint(.acknowledgeAfter)
    case .delivered, .changed, .instanceChanged, .evaluating: break
    }
    return sent
  }

  @discardableResult
  private func send(_ frame: (header: FrameHeader, body: [UInt8])) -> Socket.SendResult {
    acknowledge()
    messages.sent += 1
    return services.send(frame.header, frame.body, peer)
  }

  /// Acknowledges to the coordinator the transactions whose steps are recorded.
  private func acknowledge() {
    guard !unacknowledged.isEmpty else { return }
    let transactions = unacknowledged
    unacknowledged = []
    for transaction in transactions { send(.ack(transaction)) }
  }

  private func scheduleAcknowledgement() {
    guard acknowledgementTimer == nil else { return }
    acknowledgementTimer = services.loop.schedule(after: Self.acknowledgementDelay, for: self) {
      $0.acknowledgementTimer = nil
      $0.acknowledge()
    }
  }

  private func report(_ problem: ParticipantConflict) {
    log.warning(problem.warning)
    switch problem {
    // Without an acknowledgement, the coordinator would repeat the commit forever.
    case .commitOfUnknown(let transaction): send(ParticipantMessage.ack(transaction).frame)
    case .abortOfCommitted: break
    }
  }

  /// Notes that the node has reached a failpoint. Cuts the connections at the node's inbox if the
  /// failpoint requires that.
  private func hitFailpoint(_ point: Failpoint) {
    if Failpoint.hit(point) { services.cutConnections() }
  }

  /// Stops the participant, because its node stops.
  func stop() {
    acknowledge()
    isStarted = false
    stopLimit()
    machine.cancelEvaluation()
    if let acknowledgementTimer { services.loop.cancel(acknowledgementTimer) }
    acknowledgementTimer = nil
    inDoubtWatch.stop()
    for event in emitted.takeAll() { event.reply.resume(false) }
  }

  // MARK: Events that effects emit

  /// Requests from the coordinator an event that an effect has emitted. The request is repeated on
  /// each connection until the event is accepted.
  func emit(_ event: EmittedEvent) {
    emitted.add(event)
    send(event.request)
  }

  private func answered(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer
  ) throws(FrameError) {
    switch try emitted.answered(header, body, applied: stateMachine.lastApplied) {
    case .applied(let event):
      emitted.noteTaken(event)
      machine.noteTaken(event)
    case .committed(let event): emitted.noteTaken(event)
    case .invalid(let event, let reason):
      log.warning("an effect emitted an event that cannot be accepted: \(reason)")
      event.reply.resume(false)
    case nil: break
    }
  }

  /// Acknowledges to the coordinator, from time to time, that the outcomes of emitted events are
  /// known. Called once the ends of effects are recorded.
  private func acknowledgeEmitted() {
    // This message is not counted, because it is not for a single event.
    if let header = emitted.takeAcknowledgement(oldestEffect: machine.oldestEffect) {
      _ = services.send(header, [], peer)
    }
  }

  // MARK: Recording transactions

  var hasUnrecordedChanges: Bool { records.hasUnrecordedChanges }

  /// Whether the journal still contains a prepared step whose transaction was aborted. This is
  /// harmless, but misleads people who read the journal.
  var hasAborted: Bool { records.hasAborted }

  /// Makes prepared steps durable in the step marker file if they do not require a record in the
  /// journal.
  func markPrepared(in journal: Journal) { records.markPrepared(in: journal) }

  func record(into journal: Journal) throws { try records.write(to: journal) }

  /// Continues with the steps that have just been recorded. Called at the end of each turn, even if
  /// there is no journal.
  /// - Parameter version: The version of the machine's current state.
  func didRecord(version: UInt64) {
    for record in records.takeRecorded() {
      switch record {
      case .prepared: hitFailpoint(.prepareRecorded)
      case .step(let step):
        hitFailpoint(.stepRecorded)
        // The coordinator already knows this step, so the node does not report it as a step that
        // the node took alone.
        if step.move.version == version { reportedVersion = version }
      }
      perform(stateMachine.recorded(record))
    }
    acknowledgeEmitted()
    for event in emitted.takeUnwanted({ machine.wants($0) }) {
      send(event.withdrawal)
      event.reply.resume(false)
    }
    guard version != reportedVersion else { return }
    reportedVersion = version
    perform(stateMachine.stepped())
  }
}
