import PipeJournal
import PipeMachines
import PipeWire

/// The records of a participant that the journal lacks, in order.
struct ParticipantRecords {
  private var records: [ParticipantRecord] = []
  /// The last commit among the records.
  private var committed: TransactionID?
  /// The coordinator's new journal, `nil` if it keeps none any more, and whether the change has
  /// just been written.
  private var coordinator: (recorded: RecordedCoordinator?, isWritten: Bool)?
  /// The number of records that are durable without being written.
  private var durableCount = 0
  /// An aborted prepared step that the journal must note some time, and whether that has just been
  /// written.
  private var aborted: (transaction: TransactionID, isWritten: Bool)?

  var hasUnrecordedChanges: Bool { records.count > durableCount }

  /// Whether the journal has a prepared step that was aborted. That is harmless, but misleads
  /// readers of the journal.
  var hasAborted: Bool { aborted != nil }

  /// - Parameter isCommitted: Whether the record is the step of a transaction that all participants
  ///   take.
  mutating func append(_ record: ParticipantRecord, isCommitted: Bool) {
    records.append(record)
    if isCommitted, case .step(let step) = record { committed = step.transaction }
  }

  /// Notes that the coordinator uses another journal, or none.
  mutating func change(_ recorded: RecordedCoordinator?) { coordinator = (recorded, false) }

  mutating func abort(_ transaction: TransactionID) { aborted = (transaction, false) }

  /// Makes prepared steps durable, if a mark suffices for that and no record is needed.
  mutating func markPrepared(in journal: Journal) {
    // The new journal of the coordinator must be recorded as well.
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
        // A step that the node takes for itself is in no coordinator's journal.
        if step.transaction == committed { try journal.applied(step.transaction) }
      }
    }
    if let recorded = coordinator.map(\.recorded) {
      try journal.coordinatorChanged(to: recorded)
      coordinator?.isWritten = true
    }
    if let transaction = aborted?.transaction {
      try journal.aborted(transaction)
      aborted?.isWritten = true
    }
  }

  /// Removes and returns the records that are durable, or need no record.
  mutating func takeRecorded() -> [ParticipantRecord] {
    defer { records = [] }
    durableCount = 0
    committed = nil
    if coordinator?.isWritten == true { coordinator = nil }
    if aborted?.isWritten == true { aborted = nil }
    return records
  }
}
