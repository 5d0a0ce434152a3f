/// The limits on a journal's history and dead letters.
///
/// No limit applies to the data that exactly-once delivery requires, such as the outbox, the
/// consumed events and the numbers of requests.
public struct JournalRetention: Hashable, Sendable {
  /// The number of records to keep. Each record contains the state after a batch of steps.
  /// Default: 1,000. Range: 8…100,000.
  public var records: Int
  /// How long a record is kept, unless it is one of the last eight; `nil` keeps records of any age.
  public var recordAge: Duration?
  /// The number of dead letters that a journal stores. Further refused events are only counted.
  /// Default: 10,000. Range: 1…100,000.
  public var deadLetters: Int

  /// Makes limits.
  public init(records: Int = 1_000, recordAge: Duration? = nil, deadLetters: Int = 10_000) {
    self.records = records
    self.recordAge = recordAge
    self.deadLetters = deadLetters
  }

  /// The number of records that a journal keeps in any case.
  package static let minimumRecordCount = 8
  package static let recordRange = minimumRecordCount...100_000
  package static let deadLetterRange = 1...100_000

  /// The size of the records with large states up to which they are kept. Unit: bytes.
  package var recordByteLimit: Int { records * (4 << 20) / 1_000 }
  /// The size of the dead letters up to which they are stored. Unit: bytes.
  package var deadLetterByteLimit: Int {
    max(64 << 20, deadLetters * (64 << 20) / 10_000)
  }
}
