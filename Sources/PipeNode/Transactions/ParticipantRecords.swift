import PipeJournal
import PipeMachines
import PipeWire

/// The records of a participant that must still be written to the journal, in order.
struct ParticipantRecords {
  private var records: [ParticipantRecord] = []
  /// The last committed transaction among the records; `nil` if there is none.
  private var committed: TransactionID?
  /// The coordinator's new journal, and whether the change has just been written; `nil` if the
  /// journal has not changed. `recorded` is `nil` if the coordinator no longer has a journal.
  private var coordinator: (recorded: RecordedCoordinator?, isWritten: Bool)?
  /// The number of records that the step marker file has made durable, so that they do not have to
  /// be written.
  private var durableCount = 0
  /// The aborted transaction whose prepared step is still in the journal, and whether the abort has
  /// just been written. The write is not urgent.
  private var aborted: (transaction: TransactionID, isWritten: Bool)?

  var hasUnrecordedChanges: Bool { records.count > durableCount }

  /// Whether the journal still contains a prepared step whose transaction was aborted. This is
  /// harmless, but misleads people who read the journal.
  var hasAborted: Bool { aborted != nil }

  /// Adds a record.
  /// - Parameter isCommitted: Whether the record is the step of a committed transaction. `false`
  ///   for the step of a broadcast, which each node takes alone.
  mutating func append(_ record: ParticipantRecord, isCommitted: Bool) {
    records.append(record)
    if isCommitted, case .step(let step) = record { committed = step.transaction }
  }

  /// Notes that the coordinator uses another journal; `nil` if the coordinator no longer has one.
  mutating func change(_ recorded: RecordedCoordinator?) { coordinator = (recorded, false) }

  mutating func abort(_ transaction: TransactionID) { aborted = (transaction, false) }

  /// Makes prepared steps durable in the step marker file if they do not require a record in the
  /// journal.
  mutating func markPrepared(in journal: Journal) {
    // If the coordinator has a new journal, this change must be recorded together with the step.
    // Only the journal can record both together.
    guard coordinator == nil else { return }
    while durableCount < records.count, case .prepared(let step) = records[durableCount],
      journal.markPrepared(step)
    { durableCount += 1 }
  }

  mutating func write(to journal: Journal) throws {
    for record in records[durableCount...] {
      switch record {
      case .prepared(let step): try journal.recordPrepared(step)
      case .step(let step):
        // The step of a broadcast, which each node takes alone, is in no coordinator's journal.
        if step.transaction == committed { try journal.recordAppliedTransaction(step.transaction) }
      }
    }
    if let recorded = coordinator.map(\.recorded) {
      try journal.recordCoordinator(recorded)
      coordinator?.isWritten = true
    }
    if let transaction = aborted?.transaction {
      try journal.recordAbort(of: transaction)
      aborted?.isWritten = true
    }
  }

  /// Removes and returns the records that have just become durable. Without a journal, these are
  /// all records.
  mutating func takeRecorded() -> [ParticipantRecord] {
    defer { records = [] }
    durableCount = 0
    committed = nil
    if coordinator?.isWritten == true { coordinator = nil }
    if aborted?.isWritten == true { aborted = nil }
    return records
  }
}
