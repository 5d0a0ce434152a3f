import PipeJournal
import PipeMachines
import PipeWire

/// What the journal of a participant lacks, in order.
struct ParticipantRecords {
  private var records: [ParticipantRecord] = []
  /// How many of these are durable as they are.
  private var durableCount = 0
  /// A prepared step that was aborted, which the journal is told some time; and whether it has just
  /// been.
  private var aborted: (transaction: TransactionID, isWritten: Bool)?

  var hasUnrecorded: Bool { records.count > durableCount }

  /// Whether the journal has a prepared step that was aborted: no harm, but for who reads it.
  var hasAborted: Bool { aborted != nil }

  mutating func append(_ record: ParticipantRecord) { records.append(record) }

  mutating func abort(_ transaction: TransactionID) { aborted = (transaction, false) }

  /// Makes prepared steps durable that need no record for that.
  mutating func markPrepared(in journal: Journal) {
    while durableCount < records.count, case .prepared(let step) = records[durableCount],
      journal.markPrepared(step)
    { durableCount += 1 }
  }

  mutating func write(to journal: Journal) throws {
    for record in records[durableCount...] {
      switch record {
      case .prepared(let step): try journal.prepared(step)
      case .step(let step): try journal.applied(step.transaction)
      }
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
    if aborted?.isWritten == true { aborted = nil }
    return records
  }
}
