import PipeMachines
import PipeWire

/// The transactions in which the instances of a keyed node take part, as a pure state machine. It
/// contains a ``ParticipantStateMachine`` for each instance with a transaction in progress.
///
/// A transaction locks one instance. All instances share the sequence of transactions, because a
/// coordinator sends the PREPAREs for all instances over one connection, in ascending order. So the
/// highest transaction shows whether a PREPARE is new. The highest applied transaction shows
/// whether the commit of an unlocked instance is a repetition. With these two numbers, nothing has
/// to be stored for an unlocked instance.
package struct InstanceTransactions: Sendable {
  package typealias Action = ParticipantStateMachine.Action

  /// The state machines of instances, by key. Contains an instance only while it has a transaction
  /// in progress, or while the coordinator must be notified of its next step.
  private var stateMachinesByKey: [InstanceKey: ParticipantStateMachine] = [:]
  private var keysByTransaction: [TransactionID: InstanceKey] = [:]
  /// The highest transaction that the node knows of.
  package private(set) var watermark: TransactionID
  /// The highest transaction whose step is durable.
  package private(set) var lastApplied: TransactionID
  /// The highest transaction that was committed and applied.
  package private(set) var lastCommitted: TransactionID

  /// The maximum number of instances for which the coordinator is notified of the next step. If
  /// more instances have refused events, the coordinator's timer triggers the next attempts.
  private static let notificationLimit = 4_096

  /// Creates the transactions from the contents of the journal.
  /// - Parameters:
  ///   - prepared: The prepared steps in the journal, each with the current version of its
  ///     instance.
  ///   - applied: The highest transaction whose step is recorded.
  package init(
    prepared: [(key: InstanceKey, step: PreparedStep, version: UInt64)] = [],
    applied: TransactionID = .zero
  ) {
    lastApplied = applied
    lastCommitted = applied
    watermark = applied
    for (key, step, version) in prepared {
      watermark = max(watermark, step.transaction)
      // The record of an instance's next step deletes its prepared step. So a prepared step in the
      // journal may still be in progress, even if a later transaction of another instance was
      // applied.
      let machine = ParticipantStateMachine(prepared: step, version: version)
      guard machine.isPrepared else { continue }
      stateMachinesByKey[key] = machine
      keysByTransaction[step.transaction] = key
    }
  }

  // MARK: Instances in transactions

  /// The instances that are locked.
  package var lockedKeys: [InstanceKey] {
    stateMachinesByKey.filter { !$0.value.acceptsInputs }.map(\.key)
  }

  /// The transactions that instances are prepared for, in ascending order.
  package var prepared: [TransactionID] {
    stateMachinesByKey.values.compactMap { $0.preparedStep?.transaction }.sorted()
  }

  /// Returns whether the instance can take inputs other than its transaction.
  package func acceptsInputs(_ key: InstanceKey) -> Bool {
    stateMachinesByKey[key]?.acceptsInputs ?? true
  }

  /// Returns whether the coordinator must be notified of the instance's next step.
  package func isNotificationDue(_ key: InstanceKey) -> Bool { stateMachinesByKey[key] != nil }

  /// The state machine of an instance; `nil` if the instance has no transaction in progress and no
  /// notification is due.
  package subscript(key: InstanceKey) -> ParticipantStateMachine? { stateMachinesByKey[key] }

  /// Returns the instance that takes part in a transaction; `nil` if the transaction is not in
  /// progress.
  package func key(of transaction: TransactionID) -> InstanceKey? { keysByTransaction[transaction] }

  // MARK: Inputs of the state machines

  /// Notes a transaction for which no instance exists, because its PREPARE contains no valid key.
  package mutating func note(_ transaction: TransactionID) {
    watermark = max(watermark, transaction)
  }

  package mutating func prepare(
    _ transaction: TransactionID, of key: InstanceKey, event: [UInt8], wantsChange: Bool,
    evaluate: ParticipantStateMachine.Evaluate
  ) -> [Action] {
    guard isNew(transaction, key) else { return [] }
    return update(key) {
      $0.prepare(transaction, event: event, wantsChange: wantsChange, evaluate: evaluate)
    }
  }

  package mutating func deliver(
    _ transaction: TransactionID, of key: InstanceKey, event: [UInt8],
    evaluate: ParticipantStateMachine.Evaluate
  ) -> [Action] {
    guard isNew(transaction, key) else { return [] }
    return update(key) { $0.deliver(transaction, event: event, evaluate: evaluate) }
  }

  /// Returns whether a transaction is new, or is in progress at the instance. If neither is the
  /// case, the coordinator expects no answer.
  private mutating func isNew(_ transaction: TransactionID, _ key: InstanceKey) -> Bool {
    defer { note(transaction) }
    return transaction > watermark || keysByTransaction[transaction] == key
  }

  package mutating func commit(_ transaction: TransactionID) -> [Action] {
    if let key = keysByTransaction[transaction] { return update(key) { $0.commit(transaction) } }
    return [
      transaction <= lastApplied ? .send(.ack(transaction)) : .report(.commitOfUnknown(transaction))
    ]
  }

  package mutating func abort(_ transaction: TransactionID) -> [Action] {
    note(transaction)
    guard let key = keysByTransaction[transaction] else { return [] }
    return update(key) { $0.abort(transaction) }
  }

  package mutating func recorded(_ record: ParticipantRecord, of key: InstanceKey) -> [Action] {
    update(key) { $0.recorded(record) }
  }

  /// Notes that an instance has taken a step of its own.
  package mutating func stepped(_ key: InstanceKey) -> [Action] { update(key) { $0.stepped() } }

  package mutating func connected(_ key: InstanceKey) -> [Action] { update(key) { $0.connected() } }

  package mutating func queryTimerFired(_ key: InstanceKey) -> [Action] {
    update(key) { $0.queryTimerFired() }
  }

  /// Passes an input to the state machine of an instance. Keeps the state machine only as long as
  /// it is required.
  private mutating func update(
    _ key: InstanceKey, _ body: (inout ParticipantStateMachine) -> [Action]
  ) -> [Action] {
    var machine = stateMachinesByKey[key] ?? ParticipantStateMachine()
    let former = machine.transactionInProgress?.transaction
    let actions = body(&machine)
    lastApplied = max(lastApplied, machine.lastApplied)
    lastCommitted = max(lastCommitted, machine.lastCommitted)
    let current = machine.transactionInProgress?.transaction
    if former != current {
      if let former { keysByTransaction[former] = nil }
      if let current { keysByTransaction[current] = key }
    }
    let isNeeded =
      !machine.acceptsInputs
      || machine.isNotificationDue
        && (stateMachinesByKey[key] != nil || stateMachinesByKey.count < Self.notificationLimit)
    stateMachinesByKey[key] = isNeeded ? machine : nil
    return actions
  }
}
