import PipeJournal
import PipeMachines
import PipeWire

/// What the journal of a participant lacks, in order.
struct ParticipantRecords {
  private var records: [ParticipantRecord] = []
  /// The last commit among these.
  private var committed: TransactionID?
  /// The coordinator's journal is another one, or there is none any more; and whether that has just been written.
  private var coordinator: (known: KnownCoordinator?, isWritten: Bool)?
  /// How many of these are durable as they are.
  private var durableCount = 0
  /// A prepared step that was aborted, which the journal is told some time; and whether it has just
  /// been.
  private var aborted: (transaction: TransactionID, isWritten: Bool)?

  var hasUnrecorded: Bool { records.count > durableCount }

  /// Whether the journal has a prepared step that was aborted: no harm, but for who reads it.
  var hasAborted: Bool { aborted != nil }

  /// - Parameter isCommitted: Whether it is the step of a transaction, which all take.
  mutating func append(_ record: ParticipantRecord, isCommitted: Bool) {
    records.append(record)
    if isCommitted, case .step(let step) = record { committed = step.transaction }
  }

  /// The node is asked under another journal of its coordinator, or one that keeps none.
  mutating func change(_ known: KnownCoordinator?) { coordinator = (known, false) }

  mutating func abort(_ transaction: TransactionID) { aborted = (transaction, false) }

  /// Makes prepared steps durable that need no record for that.
  mutating func markPrepared(in journal: Journal) {
    // Under which journal it is prepared must be recorded as well.
    guard coordinator == nil else { return }
    while durableCount < records.count, case .prepared(let step) = records[durableCount],
      journal.markPrepared(step)
    { durableCount += 1 }
  }

  mutating func write(to journal: Journal) throws {
    for record in records[durableCount...] {
      switch record {
      case .prepared(let step): try journal.prepared(step)
      case .step(let step):
        // What a node takes for itself is in no journal of a coordinator's.
        if step.transaction == committed { try journal.applied(step.transaction) }
      }
    }
    if let known = coordinator.map(\.known) {
      try journal.coordinatorChanged(to: known)
      coordinator?.isWritten = true
    }
    if let transaction = aborted?.transaction {
      try journal.aborted(transaction)
      aborted?.isWritten = true
    }
  }

  /// Takes out what is recorded, or needs no record.
  mutating func takeRecorded() -> [ParticipantRecord] {
    defer { records = [] }
    durableCount = 0
    committed = nil
    if coordinator?.isWritten == true { coordinator = nil }
    if aborted?.isWritten == true { aborted = nil }
    return records
  }
}
