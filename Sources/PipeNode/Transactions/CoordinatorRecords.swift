import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The records of a coordinator: the records that its journal contained at the start, and the
/// records that must still be written to the journal.
struct CoordinatorRecords {
  /// The records that the journal contained at the start. Empty after ``takeRestored()``.
  private(set) var restored: CoordinatorJournal
  private let hasJournal: Bool
  private let incarnation: UInt64
  private var records: [CoordinatorRecord] = []
  // The following changes are not urgent. They are written with the next record, or when the node
  // ends.
  private var acknowledgedCommits: [TransactionID] = []
  private var forgottenTransactions: [TransactionID] = []
  private var removedNodes: [String] = []
  private var requestsForgotten: UInt64?

  /// - Parameter incarnation: The incarnation of the node. No other process of the node has the
  ///   same number.
  init(_ journal: Journal?, incarnation: UInt64) throws(JournalError) {
    self.incarnation = incarnation
    hasJournal = journal != nil
    restored = try journal?.coordinator() ?? CoordinatorJournal()
    if restored.mayLackRecords {
      // The record of the last start may be lost, so this start skips the epoch of the last start.
      restored.epoch += 1
      forget(through: restored.epoch)
    }
    // Without a journal, or with a new journal, the epoch is the incarnation, so that no
    // transaction id is used twice.
    guard incarnation > 0 else { return }
    if restored.epoch == 0 { forget(through: incarnation - 1) }
    restored.epoch = max(restored.epoch, incarnation - 1)
  }

  /// Marks the transactions of earlier starts that are not in the journal as forgotten.
  private mutating func forget(through epoch: UInt64) {
    restored.forgottenThrough = TransactionID(epoch: epoch, sequence: UInt64(Int64.max))
    forgottenTransactions.append(restored.forgottenThrough)
  }

  /// Removes and returns the commits that some participants may not have received when the previous
  /// process ended.
  mutating func takeRestored() -> [CommitRecord] {
    defer { restored = CoordinatorJournal() }
    return restored.commits.filter { !restored.acknowledged.contains($0.transaction) }
  }

  var hasUnrecordedChanges: Bool { !records.isEmpty }

  var hasObsoleteRecords: Bool { !acknowledgedCommits.isEmpty || !forgottenTransactions.isEmpty }

  mutating func append(_ record: CoordinatorRecord) { records.append(record) }

  /// Notes that all participants have acknowledged the commit.
  mutating func acknowledge(_ transaction: TransactionID) {
    acknowledgedCommits.append(transaction)
  }

  /// Notes that the record of a commit is no longer required.
  mutating func forget(_ transaction: TransactionID) { forgottenTransactions.append(transaction) }

  /// Notes that clients were forgotten, with their requests up to number `last`.
  mutating func forgetRequests(through last: UInt64) { requestsForgotten = last }

  /// Notes that these nodes no longer report steps, so that the records of their progress can be
  /// deleted.
  mutating func remove(nodes: [String]) { removedNodes += nodes }

  /// Writes all records and changes to the journal.
  /// - Parameter hitFailpoint: Called with each failpoint that is reached.
  func write(to journal: Journal, hitFailpoint: (Failpoint) -> Void) throws {
    for record in records {
      switch record {
      case .start(let epoch):
        try journal.recordCoordinatorStart(epoch: epoch)
        // Also records the start as a step, like the step of a machine. By this record, the next
        // start detects whether the journal is complete.
        try journal.recordState(
          to: Array("null".utf8), version: epoch, steps: 1, cause: "start",
          time: WallClock.nanoseconds, incarnation: incarnation)
      case .commit(let commit):
        hitFailpoint(.commitBefore)
        try journal.recordCommit(commit)
      }
    }
    for transaction in acknowledgedCommits { try journal.recordCommitAcknowledged(transaction) }
    for transaction in forgottenTransactions { try journal.removeCommit(of: transaction) }
    if let requestsForgotten { try journal.recordForgottenRequests(through: requestsForgotten) }
    for node in removedNodes { try journal.removeComponent(node) }
  }

  /// Removes and returns the records that have just become durable. Without a journal, these are
  /// all records.
  mutating func takeRecorded() -> [CoordinatorRecord] {
    defer { records = [] }
    if hasUnrecordedChanges || !hasJournal {
      acknowledgedCommits = []
      forgottenTransactions = []
      removedNodes = []
      requestsForgotten = nil
    }
    return records
  }
}
