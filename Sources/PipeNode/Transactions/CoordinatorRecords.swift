import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// What the journal of a coordinator told at the start, and what it lacks.
struct CoordinatorRecords {
  /// What it told, until it is taken.
  private(set) var restored: CoordinatorJournal
  private let hasJournal: Bool
  private let incarnation: UInt64
  private var records: [CoordinatorRecord] = []
  // Written with the next record, or at the end.
  private var acknowledged: [TransactionID] = []
  private var forgotten: [TransactionID] = []
  private var gone: [String] = []
  private var requestsForgotten: UInt64?

  /// - Parameter incarnation: No two processes of the node have the same.
  init(_ journal: Journal?, incarnation: UInt64) throws(JournalError) {
    self.incarnation = incarnation
    hasJournal = journal != nil
    restored = try journal?.coordinator() ?? CoordinatorJournal()
    if restored.mayLackRecords {
      // The lost ones may be of a start that is lost as well.
      restored.epoch += 1
      forget(through: restored.epoch)
    }
    // Without a journal, or with a new one, the starts still tell transactions apart.
    guard incarnation > 0 else { return }
    if restored.epoch == 0 { forget(through: incarnation - 1) }
    restored.epoch = max(restored.epoch, incarnation - 1)
  }

  /// Nothing is known of the transactions of earlier starts that are not in the journal.
  private mutating func forget(through epoch: UInt64) {
    restored.forgottenThrough = TransactionID(epoch: epoch, sequence: UInt64(Int64.max))
    forgotten.append(restored.forgottenThrough)
  }

  /// Takes out the commits that may not have reached all participants when the last process ended.
  mutating func takeRestored() -> [CommitRecord] {
    defer { restored = CoordinatorJournal() }
    return restored.commits.filter { !restored.acknowledged.contains($0.transaction) }
  }

  var hasUnrecorded: Bool { !records.isEmpty }

  var hasLeftover: Bool { !acknowledged.isEmpty || !forgotten.isEmpty }

  mutating func append(_ record: CoordinatorRecord) { records.append(record) }

  /// All participants have the commit.
  mutating func acknowledge(_ transaction: TransactionID) { acknowledged.append(transaction) }

  /// The commit is of no use any more.
  mutating func forget(_ transaction: TransactionID) { forgotten.append(transaction) }

  /// Clients are forgotten, with their requests up to this number.
  mutating func forgetRequests(through last: UInt64) { requestsForgotten = last }

  /// These nodes tell their steps no more: how far they had got is of no use.
  mutating func remove(nodes: [String]) { gone += nodes }

  /// - Parameter reach: Says that the coordinator is at a place.
  func write(to journal: Journal, reach: (Failpoint) -> Void) throws {
    for record in records {
      switch record {
      case .start(let epoch):
        try journal.coordinatorStarted(epoch: epoch)
        // A record like a machine's, by which the next start tells whether the journal is whole.
        try journal.moved(
          to: Array("null".utf8), version: epoch, steps: 1, cause: "start",
          time: WallClock.nanoseconds, incarnation: incarnation)
      case .commit(let commit):
        reach(.commitBefore)
        try journal.committed(commit)
      }
    }
    for transaction in acknowledged { try journal.acknowledged(transaction) }
    for transaction in forgotten { try journal.forgotten(transaction) }
    if let requestsForgotten { try journal.requestsForgotten(through: requestsForgotten) }
    for node in gone { try journal.componentRemoved(node) }
  }

  /// Takes out what is recorded, or needs no record.
  mutating func takeRecorded() -> [CoordinatorRecord] {
    defer { records = [] }
    if hasUnrecorded || !hasJournal {
      acknowledged = []
      forgotten = []
      gone = []
      requestsForgotten = nil
    }
    return records
  }
}
