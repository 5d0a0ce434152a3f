import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// A node's participant in synchronized events: performs the decisions of
/// ``ParticipantStateMachine``.
///
/// Its records are part of the node's records. A prepared step, and the transaction of a taken
/// step, are written with the state, and only then reported to the coordinator.
final class Participant {
  /// The coordinator's routing id at the inbox.
  let peer: [UInt8]
  /// Whether no other input may be taken.
  @exclusivity(unchecked)
  private(set) var isFrozen: Bool
  /// The numbers of messages to and from the coordinator.
  @exclusivity(unchecked)
  private(set) var messages = NodeStatus.Messages()
  private let configuration: NodeConfiguration.Participant
  private unowned let machine: any ParticipatingMachine
  private let steps: ParticipatingSteps
  private let services: NodeServices
  private let log: NodeLog
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var state: ParticipantStateMachine
  @exclusivity(unchecked)
  private var records = ParticipantRecords()
  /// The coordinator's journal under which the node was last prepared.
  @exclusivity(unchecked)
  private var coordinator: RecordedCoordinator?
  @exclusivity(unchecked)
  private var emitted = EmittedEvents()
  private lazy var inDoubtWatch = InDoubtWatch(
    isInDoubt: state.isPrepared, coordinator: configuration.coordinator, loop: services.loop,
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
  /// The transactions that are recorded but not acknowledged. The next yes implies their
  /// acknowledgement; otherwise it is sent before the next message, or soon.
  @exclusivity(unchecked)
  private var unacknowledged: [TransactionID] = []
  @exclusivity(unchecked)
  private var acknowledgementTimer: TimerQueue.ID?
  /// The timer for the limit of the running transition.
  @exclusivity(unchecked)
  private var limitTimer: TimerQueue.ID?

  /// The longest delay of an acknowledgement. It ends well before the coordinator repeats the
  /// commit. It is long enough that another message mostly comes first: the acknowledgement then
  /// wakes no process by itself.
  private static let acknowledgementDelay: Duration = .milliseconds(100)

  init(
    _ configuration: NodeConfiguration.Participant, machine: any ParticipatingMachine,
    steps: ParticipatingSteps, restored: JournalContents.Participant?, version: UInt64,
    services: NodeServices, log: NodeLog
  ) {
    self.configuration = configuration
    peer = Array(WireName.coordinator(configuration.coordinator).utf8)
    state = ParticipantStateMachine(
      prepared: restored?.prepared, applied: restored?.applied ?? .zero, version: version)
    isFrozen = !state.acceptsInputs
    coordinator = restored?.coordinator
    reportedVersion = version
    self.machine = machine
    self.steps = steps
    self.services = services
    self.log = log
  }

  /// Returns the composites through which the event must be taken; `nil` if it is not
  /// synchronized.
  func composites(of event: String) -> [String]? { configuration.events[event] }

  /// Returns the reason to refuse an event that is sent to this node directly; `nil` if the node
  /// may take it.
  func problem(withDirect event: String?) -> String? {
    guard let event, let composites = composites(of: event) else { return nil }
    let names = composites.map { "'\($0)'" }.joined(separator: " or ")
    return "'\(event)' is synchronized; send it to composite \(names)"
  }

  // MARK: The prepared step

  /// Whether the node has asked for the outcome of its prepared transaction, and has no answer.
  var isInDoubt: Bool { inDoubtWatch.isInDoubt }

  /// Returns the transaction that the node is evaluating, prepared for or taking; `nil` if it is
  /// free.
  func prepared(of node: String) -> InDoubtTransaction? {
    guard let (transaction, event) = state.transactionInProgress else { return nil }
    let body = TransactionBody(event)
    return InDoubtTransaction(
      participant: node, composite: body?.composite ?? "", event: body?.eventName ?? "",
      transaction: transaction, since: inDoubtWatch.preparedAt)
  }

  /// Returns the prepared transaction, if it is in doubt.
  func inDoubt(of node: String) -> InDoubtTransaction? { isInDoubt ? prepared(of: node) : nil }

  private func handleQueryTimer() {
    inDoubtWatch.note(.silence, of: state.preparedStep)
    perform(state.queryTimerFired())
  }

  // MARK: The coordinator

  /// Notes that the machine runs. The coordinator may have connected before.
  func started() {
    isStarted = true
    inDoubtWatch.note(.restart, of: state.preparedStep)
    perform(state.start())
    join()
  }

  /// Handles a new connection of the coordinator, the first or a later one.
  func connected() {
    isConnected = true
    // Otherwise the node joins when it starts.
    guard isStarted else { return }
    inDoubtWatch.note(.lostConnection, of: state.preparedStep)
    join()
    // A coordinator without a record does not know a commit that its predecessor sent just before
    // its end.
    machine.reportState()
  }

  private func join() {
    // Not counted: the message belongs to the connection.
    let join = ParticipantJoin(
      watermark: state.watermark, prepared: state.preparedStep?.transaction, history: history)
    let frame = join.frame
    _ = services.send(frame.header, frame.body, peer)
    for event in emitted.waiting { send(event.request) }
    perform(state.connected())
  }

  /// The coordinator's journal, and the last commit that the node has taken under it.
  private var history: ParticipantJoin.History? {
    guard let coordinator, coordinator.name == configuration.coordinator else { return nil }
    let isOlder = state.committed <= coordinator.since
    return .init(journal: coordinator.journal, committed: isOlder ? .zero : state.committed)
  }

  /// Notes the coordinator's journal that a request names.
  private func note(_ journal: UInt64?) {
    guard coordinator?.journal != journal || coordinator?.name != configuration.coordinator,
      coordinator != nil || journal != nil
    else { return }
    coordinator = journal.map {
      RecordedCoordinator(name: configuration.coordinator, journal: $0, since: state.applied)
    }
    records.change(coordinator)
  }

  /// Handles a frame of the coordinator.
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
      note(CoordinatorMessage.journal(header, body))
      // An event that its effect no longer wants is not taken.
      let isWanted = emittedNumber.map { emitted.isWaiting($0) { machine.wants($0) } } ?? true
      let evaluate =
        isWanted ? steps.evaluate : { _ throws(ParticipantRefusal) in throw .withdrawn }
      perform(
        state.prepare(transaction, event: event, wantsChange: wantsChange, evaluate: evaluate))
    case .commit(let transaction):
      hitFailpoint(.commitReceived)
      inDoubtWatch.note(.committed, of: transaction, prepared: state.preparedStep)
      let isRepeated = transaction <= state.applied
      perform(state.commit(transaction))
      if isRepeated { acknowledge() }
    case .abort(let transaction):
      hitFailpoint(.abortReceived)
      inDoubtWatch.note(.aborted, of: transaction, prepared: state.preparedStep)
      if !state.isTakingStep, state.step?.transaction == transaction { records.abort(transaction) }
      perform(state.abort(transaction))
    case .deliver(let transaction, let event):
      guard finishTaking() else { return }
      perform(state.deliver(transaction, event: event, evaluate: steps.evaluate))
    }
  }

  /// Finishes the step of a commit before a later message, which concerns the state after the
  /// commit. Inputs that the node has kept since it was prepared have their turn first.
  /// - Returns: `false` if the node has ended or stopped.
  private func finishTaking() -> Bool {
    !state.isTakingStep || services.finishTurn() && isStarted
  }

  private func perform(_ actions: [ParticipantStateMachine.Action]) {
    isFrozen = !state.acceptsInputs
    let wasInDoubt = isInDoubt
    if !state.isPrepared { inDoubtWatch.isInDoubt = false }
    var isDisconnected = false
    for action in actions {
      switch action {
      case .record(let record):
        records.append(record, isCommitted: state.isApplying)
        if case .prepared = record { inDoubtWatch.prepared() }
      case .enter(let step):
        if let event = emitted.take(step.transaction) { machine.noteTaken(event) }
        steps.enter(step, state.isApplying)
      case .send(.ack(let transaction)):
        unacknowledged.append(transaction)
        scheduleAcknowledgement()
      case .send(let message):
        // A promised transaction will be queried again. A running evaluation is awaited only on the
        // current connection.
        if case .unroutable = send(message) { isDisconnected = true }
      case .startLimit(let transaction, let limit):
        inDoubtWatch.prepared()
        startLimit(limit, of: transaction)
      case .stopLimit: stopLimit()
      case .rollBack: steps.rollBack()
      // The kept inputs are taken in the next turn.
      case .unfreeze: break
      case .startQueryTimer: inDoubtWatch.startTimer()
      case .stopQueryTimer: inDoubtWatch.stopTimer()
      case .report(let problem): report(problem)
      }
    }
    // A step that ends the doubt shows the new state anyway.
    if wasInDoubt != isInDoubt, state.isPrepared || state.acceptsInputs { machine.inDoubtChanged() }
    if isDisconnected { perform(state.disconnected()) }
  }

  // MARK: Transitions that take their time

  /// Handles the result of an evaluation: where the event leads the machine, or the refusal.
  func evaluated(_ result: Result<ParticipantMove, ParticipantRefusal>) {
    guard isStarted, let transaction = state.transactionInProgress?.transaction else { return }
    hitFailpoint(.evaluateAfter)
    perform(state.evaluated(transaction, result))
  }

  /// Notifies the coordinator that the node may evaluate again, since an abandoned transition has
  /// returned.
  func mayEvaluateAgain() {
    guard isStarted else { return }
    perform(state.stepped())
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
    let event = state.transactionInProgress.flatMap { TransactionBody($0.event)?.eventName } ?? ""
    let actions = state.limitPassed(transaction)
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
    case .delivered, .changed, .evaluating: break
    }
    return sent
  }

  @discardableResult
  private func send(_ frame: (header: FrameHeader, body: [UInt8])) -> Socket.SendResult {
    acknowledge()
    messages.sent += 1
    return services.send(frame.header, frame.body, peer)
  }

  /// Acknowledges the recorded transactions to the coordinator.
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
    // Otherwise the coordinator would repeat the commit forever.
    case .commitOfUnknown(let transaction): send(ParticipantMessage.ack(transaction).frame)
    case .abortOfCommitted: break
    }
  }

  /// Reports that the node has reached a failpoint; cuts the connections at its inbox if the
  /// failpoint requires that.
  private func hitFailpoint(_ point: Failpoint) {
    if Failpoint.hit(point) { services.cut() }
  }

  /// Stops the participant with its node.
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

  // MARK: Events of effects

  /// Requests an event that an effect has emitted, until it is taken.
  func emit(_ event: EmittedEvent) {
    emitted.add(event)
    send(event.request)
  }

  private func answered(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer
  ) throws(FrameError) {
    switch try emitted.answered(header, body, applied: state.applied) {
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

  /// Acknowledges answers to the coordinator from time to time, after the ends of effects are
  /// recorded.
  private func acknowledgeEmitted() {
    // Not counted: the message belongs to no single event.
    if let header = emitted.takeAcknowledgement(oldestEffect: machine.oldestEffect) {
      _ = services.send(header, [], peer)
    }
  }

  // MARK: Records

  var hasUnrecordedChanges: Bool { records.hasUnrecordedChanges }

  /// Whether the journal has a prepared step that was aborted. That is harmless, but misleads
  /// readers of the journal.
  var hasAborted: Bool { records.hasAborted }

  /// Makes prepared steps durable, if a mark suffices for that and no record is needed.
  func markPrepared(in journal: Journal) { records.markPrepared(in: journal) }

  func record(into journal: Journal) throws { try records.write(to: journal) }

  /// Continues after the steps are recorded, or need no record.
  /// - Parameter version: The count of the machine's steps.
  func didRecord(version: UInt64) {
    for record in records.takeRecorded() {
      switch record {
      case .prepared: hitFailpoint(.prepareRecorded)
      case .step(let step):
        hitFailpoint(.stepRecorded)
        // Not a step of its own: the coordinator wakes the requests that wait for a change.
        if step.move.version == version { reportedVersion = version }
      }
      perform(state.recorded(record))
    }
    acknowledgeEmitted()
    for event in emitted.takeUnwanted({ machine.wants($0) }) {
      send(event.withdrawal)
      event.reply.resume(false)
    }
    guard version != reportedVersion else { return }
    reportedVersion = version
    perform(state.stepped())
  }
}
