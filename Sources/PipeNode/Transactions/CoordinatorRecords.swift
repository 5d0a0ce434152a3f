import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The records of a coordinator: the records that its journal had at the start, and the records that
/// the journal lacks.
struct CoordinatorRecords {
  /// The journal's records at the start, until they are taken.
  private(set) var restored: CoordinatorJournal
  private let hasJournal: Bool
  private let incarnation: UInt64
  private var records: [CoordinatorRecord] = []
  // Written with the next record, or at the end.
  private var acknowledged: [TransactionID] = []
  private var forgotten: [TransactionID] = []
  private var removedNodes: [String] = []
  private var requestsForgotten: UInt64?

  /// - Parameter incarnation: Unique among the processes of the node.
  init(_ journal: Journal?, incarnation: UInt64) throws(JournalError) {
    self.incarnation = incarnation
    hasJournal = journal != nil
    restored = try journal?.coordinator() ?? CoordinatorJournal()
    if restored.mayLackRecords {
      // The lost records may be of a start that is lost as well.
      restored.epoch += 1
      forget(through: restored.epoch)
    }
    // Without a journal, or with a new one, the incarnations still distinguish transactions.
    guard incarnation > 0 else { return }
    if restored.epoch == 0 { forget(through: incarnation - 1) }
    restored.epoch = max(restored.epoch, incarnation - 1)
  }

  /// Forgets the transactions of earlier starts that are not in the journal.
  private mutating func forget(through epoch: UInt64) {
    restored.forgottenThrough = TransactionID(epoch: epoch, sequence: UInt64(Int64.max))
    forgotten.append(restored.forgottenThrough)
  }

  /// Removes and returns the commits that may not have reached all participants when the last
  /// process ended.
  mutating func takeRestored() -> [CommitRecord] {
    defer { restored = CoordinatorJournal() }
    return restored.commits.filter { !restored.acknowledged.contains($0.transaction) }
  }

  var hasUnrecordedChanges: Bool { !records.isEmpty }

  var hasObsoleteRecords: Bool { !acknowledged.isEmpty || !forgotten.isEmpty }

  mutating func append(_ record: CoordinatorRecord) { records.append(record) }

  /// Notes that all participants have the commit.
  mutating func acknowledge(_ transaction: TransactionID) { acknowledged.append(transaction) }

  /// Notes that the commit is no longer needed.
  mutating func forget(_ transaction: TransactionID) { forgotten.append(transaction) }

  /// Notes that clients are forgotten, with their requests up to this number.
  mutating func forgetRequests(through last: UInt64) { requestsForgotten = last }

  /// Notes that these nodes report no more steps: the records of their progress are no longer
  /// needed.
  mutating func remove(nodes: [String]) { removedNodes += nodes }

  /// - Parameter hitFailpoint: Called with each failpoint that is reached.
  func write(to journal: Journal, hitFailpoint: (Failpoint) -> Void) throws {
    for record in records {
      switch record {
      case .start(let epoch):
        try journal.coordinatorStarted(epoch: epoch)
        // A record like a machine's: it shows the next start whether the journal is complete.
        try journal.moved(
          to: Array("null".utf8), version: epoch, steps: 1, cause: "start",
          time: WallClock.nanoseconds, incarnation: incarnation)
      case .commit(let commit):
        hitFailpoint(.commitBefore)
        try journal.committed(commit)
      }
    }
    for transaction in acknowledged { try journal.acknowledged(transaction) }
    for transaction in forgotten { try journal.forgotten(transaction) }
    if let requestsForgotten { try journal.requestsForgotten(through: requestsForgotten) }
    for node in removedNodes { try journal.componentRemoved(node) }
  }

  /// Removes and returns the records that are durable, or need no record.
  mutating func takeRecorded() -> [CoordinatorRecord] {
    defer { records = [] }
    if hasUnrecordedChanges || !hasJournal {
      acknowledged = []
      forgotten = []
      removedNodes = []
      requestsForgotten = nil
    }
    return records
  }
}
