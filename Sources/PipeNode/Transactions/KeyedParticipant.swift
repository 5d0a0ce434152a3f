import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// The functions of a keyed node's instances that ``KeyedParticipant`` calls.
protocol ParticipatingInstances: AnyObject {
  /// Returns the key of the instance that must take a synchronized event.
  func key(ofSynchronized event: [UInt8]) -> Result<InstanceKey, InstanceKeyError>
  /// Evaluates an event in the current state of an instance, without taking a step.
  func evaluate(_ event: [UInt8], of key: InstanceKey) throws(ParticipantRefusal)
    -> ParticipantAnswer
  /// Takes the prepared step of an instance, which enters the next state.
  func enter(_ step: PreparedStep, of key: InstanceKey)
  /// Makes further inputs of an instance wait.
  func lock(_ key: InstanceKey)
  /// Processes the waiting inputs of an instance.
  func unlock(_ key: InstanceKey)
  /// Returns whether an unlocked instance still has waiting inputs. These inputs must be processed
  /// before the instance is locked again.
  func hasWaitingInput(_ key: InstanceKey) -> Bool
  /// Publishes the node's state again, because an instance has become in doubt or is no longer in
  /// doubt.
  func inDoubtChanged()
}

/// A keyed node as a participant in synchronized events. Each event is for one instance. Performs
/// the decisions of ``InstanceTransactions``.
///
/// A transaction locks only its instance. The other instances continue to take events and to take
/// part in other transactions.
final class KeyedParticipant: NodeParticipant {
  /// An instance that is locked by a transaction.
  private struct Lock {
    /// The time at which the instance was locked. If an earlier process locked the instance, the
    /// time at which this process started. Unit: nanoseconds since 1970.
    var since = WallClock.nanoseconds
    /// The time at which to ask the coordinator for the outcome; `nil` if nothing is prepared.
    /// Unit: nanoseconds of ``BootClock``.
    var queryTime: Int64?
    /// Whether the node has asked for the outcome and has not received it yet.
    var isInDoubt = false
  }

  let peer: [UInt8]
  /// The numbers of messages that were exchanged with the coordinator.
  private(set) var messages = NodeStatus.Messages()
  private let configuration: NodeConfiguration.Participant
  private unowned let instances: any ParticipatingInstances
  private let services: NodeServices
  private let log: NodeLog
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var transactions: InstanceTransactions
  @exclusivity(unchecked)
  private var locksByKey: [InstanceKey: Lock] = [:]
  @exclusivity(unchecked)
  private var records: InstanceRecords
  @exclusivity(unchecked)
  private var coordinator: KnownCoordinator
  @exclusivity(unchecked)
  private var isStarted = false
  /// Whether the coordinator has connected to this process. Earlier messages were meant for the
  /// previous process.
  @exclusivity(unchecked)
  private var isConnected = false
  /// The transactions whose steps are recorded, but not acknowledged to the coordinator.
  @exclusivity(unchecked)
  private var unacknowledged: [(transaction: TransactionID, key: InstanceKey?)] = []
  @exclusivity(unchecked)
  private var acknowledgementTimer: TimerQueue.ID?
  @exclusivity(unchecked)
  private var queryTimer: TimerQueue.ID?
  /// The instances that have taken a step, while the coordinator waits for a notification of this
  /// step.
  @exclusivity(unchecked)
  private var steppedKeys: Set<InstanceKey> = []
  /// Whether a log message has reported that instances are in doubt.
  private var isInDoubtLogged = false

  /// The time for which a prepared instance waits for the outcome before the node asks. Unit:
  /// nanoseconds.
  private static let queryInterval: Int64 = 200_000_000
  /// The longest delay of an acknowledgement, shorter than the interval after which the coordinator
  /// repeats the commit.
  private static let acknowledgementDelay: Duration = .milliseconds(100)

  /// - Parameters:
  ///   - prepared: The prepared steps in the journal, each with the current version of its
  ///     instance.
  ///   - isRecorded: Whether the node has a journal.
  init(
    _ configuration: NodeConfiguration.Participant, instances: any ParticipatingInstances,
    prepared: [(key: InstanceKey, step: PreparedStep, version: UInt64)],
    restored: JournalContents.Participant?, isRecorded: Bool, services: NodeServices, log: NodeLog
  ) {
    records = InstanceRecords(isRecorded: isRecorded)
    self.configuration = configuration
    peer = Array(WireName.coordinator(configuration.coordinator).utf8)
    transactions = InstanceTransactions(prepared: prepared, applied: restored?.lastApplied ?? .zero)
    coordinator = KnownCoordinator(
      configuration.coordinator, recorded: restored?.coordinator)
    self.instances = instances
    self.services = services
    self.log = log
    for key in transactions.lockedKeys { locksByKey[key] = Lock(isInDoubt: true) }
  }

  // MARK: Locked instances

  /// Whether the node must not stop yet, because instances wait for the outcome of an event.
  var isFrozen: Bool { !locksByKey.isEmpty }

  /// The keys of the locked instances.
  var lockedKeys: [InstanceKey] { Array(locksByKey.keys) }

  func isLocked(_ key: InstanceKey) -> Bool { !locksByKey.isEmpty && locksByKey[key] != nil }

  /// Returns the step for which an instance is prepared; `nil` if there is none.
  func preparedStep(of key: InstanceKey) -> PreparedStep? { transactions[key]?.preparedStep }

  /// Returns the transaction in progress of an instance, and whether the transaction is in doubt.
  /// Returns `nil` if the instance has no transaction in progress.
  func transaction(
    of key: InstanceKey, in node: String
  ) -> (prepared: InDoubtTransaction, isInDoubt: Bool)? {
    guard let lock = locksByKey[key],
      let (transaction, event) = transactions[key]?.transactionInProgress
    else {
      return nil
    }
    let body = TransactionBody(event)
    return (
      InDoubtTransaction(
        participant: InstanceName(node: node, key: key.text).description,
        composite: body?.composite ?? "", event: body?.eventName ?? "", transaction: transaction,
        since: lock.since), lock.isInDoubt
    )
  }

  /// Returns the transaction in doubt whose instance was locked first, with the number of other
  /// instances in doubt; `nil` if no instance is in doubt.
  func inDoubt(of node: String) -> InDoubtTransaction? {
    guard !locksByKey.isEmpty else { return nil }
    let inDoubt = locksByKey.filter(\.value.isInDoubt)
    let oldest = inDoubt.min { ($0.value.since, $0.key.text) < ($1.value.since, $1.key.text) }
    guard let oldest, var found = transaction(of: oldest.key, in: node)?.prepared else {
      return nil
    }
    found.otherInstances = inDoubt.count > 1 ? inDoubt.count - 1 : nil
    return found
  }

  /// Notes that an instance has taken a step. The coordinator is then notified, if it has asked for
  /// a notification.
  func noteStep(of key: InstanceKey) {
    if transactions.isNotificationDue(key) { steppedKeys.insert(key) }
  }

  // MARK: Messages from the coordinator

  /// Notes that the node has started. The coordinator may have connected before.
  func started() {
    isStarted = true
    let prepared = lockedKeys
    if !prepared.isEmpty { noteInDoubt(prepared, after: "a restart") }
    for key in prepared { startQuery(of: key) }
    join()
  }

  func connected() {
    isConnected = true
    guard isStarted else { return }
    join()
  }

  private func join() {
    guard isConnected else { return }
    let join = ParticipantJoin(
      watermark: transactions.watermark, prepared: transactions.prepared,
      history: coordinator.history(lastCommitted: transactions.lastCommitted))
    let frame = join.frame
    _ = services.send(frame.header, frame.body, peer)
    for key in lockedKeys { perform(transactions.connected(key), of: key) }
  }

  func received(_ header: FrameHeader, _ body: UnsafeRawBufferPointer) throws(FrameError) {
    guard isConnected else { return }
    messages.received += 1
    // Effects of instances emit no synchronized events, so the node expects no replies.
    if case .reply = header.kind { return }
    try header.checkEpoch(at: WallClock.nanoseconds)
    let message = try CoordinatorMessage(header, body)
    guard isStarted else { return }
    switch message {
    case .prepare(let transaction, let event, let wantsChange, _):
      guard let key = key(of: event, transaction, { .no(transaction, $0) }), finishTaking(key)
      else { return }
      hitFailpoint(.prepareBefore)
      if coordinator.note(
        CoordinatorMessage.journal(header, body), lastApplied: transactions.lastApplied)
      {
        records.change(coordinator.recorded)
      }
      perform(
        transactions.prepare(
          transaction, of: key, event: event, wantsChange: wantsChange,
          evaluate: { [instances] event throws(ParticipantRefusal) in
            try instances.evaluate(event, of: key)
          }), of: key)
    case .commit(let transaction):
      hitFailpoint(.commitReceived)
      let key = transactions.key(of: transaction)
      perform(transactions.commit(transaction), of: key)
      if key == nil { acknowledge() }
    case .abort(let transaction):
      hitFailpoint(.abortReceived)
      let key = transactions.key(of: transaction)
      if let key, transactions[key]?.isTakingStep == false { records.abort(transaction, of: key) }
      perform(transactions.abort(transaction), of: key)
    case .deliver(let transaction, let event):
      guard
        let key = key(of: event, transaction, { .delivered(transaction, .failure($0)) }),
        finishTaking(key)
      else { return }
      perform(
        transactions.deliver(
          transaction, of: key, event: event,
          evaluate: { [instances] event throws(ParticipantRefusal) in
            try instances.evaluate(event, of: key)
          }), of: key)
    }
  }

  /// Returns the key of an event's instance. If the event has no valid key, refuses the event and
  /// returns `nil`.
  private func key(
    of event: [UInt8], _ transaction: TransactionID,
    _ refusal: (ParticipantRefusal) -> ParticipantMessage
  ) -> InstanceKey? {
    switch instances.key(ofSynchronized: event) {
    case .success(let key): return key
    case .failure(let error):
      transactions.note(transaction)
      send(
        refusal(.refused(.thrown("\(error)"), version: 0, state: Array("null".utf8))), of: nil)
      return nil
    }
  }

  /// Finishes the step of an instance's last commit before the instance handles a new request. The
  /// request refers to the state after this commit. Also processes the instance's waiting inputs.
  /// - Returns: Whether the node is still running.
  private func finishTaking(_ key: InstanceKey) -> Bool {
    guard transactions[key]?.isTakingStep == true || instances.hasWaitingInput(key) else {
      return true
    }
    return services.finishTurn() && isStarted
  }

  /// Performs the actions that a state machine has returned.
  /// - Parameter key: The instance that the actions are about; `nil` if the transaction locks no
  ///   instance.
  private func perform(_ actions: [InstanceTransactions.Action], of key: InstanceKey?) {
    let wasInDoubt = key.flatMap { locksByKey[$0]?.isInDoubt } ?? false
    if let key, locksByKey[key] == nil, !transactions.acceptsInputs(key) {
      locksByKey[key] = Lock()
      instances.lock(key)
    }
    for action in actions {
      switch action {
      case .record(let record):
        if let key {
          records.append(record, of: key, isCommitted: transactions[key]?.isApplying == true)
        }
      case .enter(let step): if let key { instances.enter(step, of: key) }
      case .send(.ack(let transaction)):
        unacknowledged.append((transaction, key))
        scheduleAcknowledgement()
      case .send(let message): send(message, of: key)
      case .unfreeze: if let key { unlock(key) }
      case .startQueryTimer: if let key { startQuery(of: key) }
      case .stopQueryTimer:
        if let key {
          locksByKey[key]?.queryTime = nil
          locksByKey[key]?.isInDoubt = false
        }
      case .report(let problem): report(problem)
      // The transitions of instances in transactions are never asynchronous.
      case .startLimit, .stopLimit, .rollBack: break
      }
    }
    guard wasInDoubt, key.flatMap({ locksByKey[$0]?.isInDoubt }) != true else { return }
    instances.inDoubtChanged()
    noteDecided()
  }

  private func unlock(_ key: InstanceKey) {
    locksByKey[key] = nil
    instances.unlock(key)
  }

  // MARK: Transactions in doubt

  private func startQuery(of key: InstanceKey) {
    locksByKey[key]?.queryTime = BootClock.nanoseconds + Self.queryInterval
    scheduleQueries(after: Self.queryInterval)
  }

  private func scheduleQueries(after nanoseconds: Int64) {
    guard queryTimer == nil else { return }
    queryTimer = services.loop.schedule(after: .nanoseconds(nanoseconds), for: self) {
      $0.queryTimer = nil
      $0.query()
    }
  }

  /// Asks for the outcome of each transaction whose outcome is overdue.
  private func query() {
    let now = BootClock.nanoseconds
    let due = locksByKey.filter { $0.value.queryTime.map { $0 <= now } ?? false }.map(\.key)
    for key in due {
      if locksByKey[key]?.isInDoubt == false {
        noteInDoubt(
          [key], after: Duration.nanoseconds(Self.queryInterval).shortText + " without a message")
      }
      perform(transactions.queryTimerFired(key), of: key)
    }
    guard let next = locksByKey.values.compactMap(\.queryTime).min() else { return }
    scheduleQueries(after: max(1_000_000, next - BootClock.nanoseconds))
  }

  /// Logs that instances are in doubt, unless a log message has already reported this.
  private func noteInDoubt(_ keys: [InstanceKey], after cause: String) {
    guard !isInDoubtLogged, let key = keys.min(by: { $0.text < $1.text }) else { return }
    isInDoubtLogged = true
    let others = keys.count > 1 ? ", and \(keys.count - 1) more," : ""
    log.note(
      "instance '\(key)'\(others) is in doubt after \(cause): the node has promised to take a "
        + "synchronized event, and asks '\(configuration.coordinator)' for the outcome; other "
        + "instances continue")
  }

  private func noteDecided() {
    guard isInDoubtLogged, !locksByKey.values.contains(where: \.isInDoubt) else { return }
    isInDoubtLogged = false
    log.note("no instance is in doubt any more")
  }

  // MARK: Messages to the coordinator

  private func send(_ message: ParticipantMessage, of key: InstanceKey?) {
    var message = message
    if case .yes(let transaction, _) = message {
      // The vote of an instance acknowledges the earlier transactions of the same instance.
      unacknowledged.removeAll { $0.key == key && $0.transaction < transaction }
    }
    if case .changed = message, let key { message = .instanceChanged(key.text) }
    messages.sent += 1
    let frame = message.frame
    _ = services.send(frame.header, frame.body, peer)
    switch message {
    case .yes: hitFailpoint(.yesAfter)
    case .no: hitFailpoint(.noAfter)
    case .query:
      if let key, locksByKey[key]?.isInDoubt == false {
        locksByKey[key]?.isInDoubt = true
        instances.inDoubtChanged()
      }
      hitFailpoint(.querySent)
    case .ack: hitFailpoint(.acknowledgeAfter)
    case .delivered, .changed, .instanceChanged, .evaluating: break
    }
  }

  private func acknowledge() {
    guard !unacknowledged.isEmpty else { return }
    let transactions = unacknowledged
    unacknowledged = []
    for (transaction, key) in transactions { send(.ack(transaction), of: key) }
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
    case .commitOfUnknown(let transaction): send(.ack(transaction), of: nil)
    case .abortOfCommitted: break
    }
  }

  private func hitFailpoint(_ point: Failpoint) {
    if Failpoint.hit(point) { services.cutConnections() }
  }

  func stop() {
    acknowledge()
    isStarted = false
    if let acknowledgementTimer { services.loop.cancel(acknowledgementTimer) }
    if let queryTimer { services.loop.cancel(queryTimer) }
    (acknowledgementTimer, queryTimer) = (nil, nil)
  }

  // MARK: Recording transactions

  var hasUnrecordedChanges: Bool { records.hasUnrecordedChanges }

  /// Whether the journal still contains prepared steps whose transactions were aborted.
  var hasAborted: Bool { records.hasAborted }

  func record(into journal: Journal) throws {
    try records.write(to: journal, committed: transactions.lastCommitted)
  }

  /// Continues with the steps that have just been recorded. Called at the end of each turn, even if
  /// there is no journal.
  func didRecord() {
    for (key, record) in records.takeRecorded() {
      switch record {
      case .prepared: hitFailpoint(.prepareRecorded)
      case .step: hitFailpoint(.stepRecorded)
      }
      perform(transactions.recorded(record, of: key), of: key)
    }
    guard !steppedKeys.isEmpty else { return }
    let keys = steppedKeys
    steppedKeys = []
    for key in keys { perform(transactions.stepped(key), of: key) }
  }
}

/// The records of a keyed participant that must still be written to the journal, in order.
private struct InstanceRecords {
  /// Whether the node has a journal.
  let isRecorded: Bool
  private var records: [(key: InstanceKey, record: ParticipantRecord)] = []
  /// The highest committed transaction among the records; `nil` if there is none.
  private var committed: TransactionID?
  /// The coordinator's new journal; `nil` if the journal has not changed. `recorded` is `nil` if
  /// the coordinator no longer has a journal.
  private var coordinator: (recorded: RecordedCoordinator?, isWritten: Bool)?
  /// The aborted transactions whose prepared steps are still in the journal. Their removal is not
  /// urgent, but precedes all later records of their instances.
  private var aborted: [(transaction: TransactionID, key: InstanceKey)] = []
  private var writtenAborts = 0

  init(isRecorded: Bool) { self.isRecorded = isRecorded }

  var hasUnrecordedChanges: Bool { !records.isEmpty }
  var hasAborted: Bool { !aborted.isEmpty }

  mutating func append(_ record: ParticipantRecord, of key: InstanceKey, isCommitted: Bool) {
    records.append((key, record))
    if isCommitted, case .step(let step) = record {
      committed = max(committed ?? .zero, step.transaction)
    }
  }

  mutating func change(_ recorded: RecordedCoordinator?) { coordinator = (recorded, false) }

  mutating func abort(_ transaction: TransactionID, of key: InstanceKey) {
    let count = records.count
    records.removeAll {
      if case .prepared(let step) = $0.record { step.transaction == transaction } else { false }
    }
    // If no record was removed, the journal already contains the prepared step.
    if records.count == count, isRecorded { aborted.append((transaction, key)) }
  }

  /// Writes all records and changes to the journal.
  /// - Parameter former: The highest committed transaction that is already recorded.
  mutating func write(to journal: Journal, committed former: TransactionID) throws {
    for (transaction, key) in aborted { try journal.removePreparedStep(transaction, of: key) }
    writtenAborts = aborted.count
    for (key, record) in records {
      switch record {
      case .prepared(let step): try journal.recordPrepared(step, of: key)
      case .step(let step): try journal.removePreparedStep(step.transaction, of: key)
      }
    }
    // Instances can finish their commits in a different order than the order of their transactions.
    if let committed, committed > former { try journal.recordAppliedTransaction(committed) }
    if let recorded = coordinator.map(\.recorded) {
      try journal.recordCoordinator(recorded)
      coordinator?.isWritten = true
    }
  }

  /// Removes and returns the records that have just become durable. Without a journal, these are
  /// all records.
  mutating func takeRecorded() -> [(key: InstanceKey, record: ParticipantRecord)] {
    defer { records = [] }
    committed = nil
    if coordinator?.isWritten == true { coordinator = nil }
    aborted.removeFirst(writtenAborts)
    writtenAborts = 0
    return records
  }
}
