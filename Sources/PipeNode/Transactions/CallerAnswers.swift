import PipeMachines
import PipeSupport
import PipeWire

/// What callers were answered, for those who ask again; and whose transactions are whose.
///
/// The last answers are kept, and as many again of those whose callers may wait for them.
struct CallerAnswers: Sendable {
  private var answers: [RequestID: TransactionReply] = [:]
  /// The answered requests, the oldest first.
  private var order = Queue<RequestID>()
  private var transactions: [RequestID: TransactionID] = [:]
  private var callers: [TransactionID: RequestID] = [:]
  /// Of each caller that has said so, the oldest request whose answer it waits for.
  private var awaited: [String: UInt64] = [:]
  /// The highest transaction of which nothing is known any more.
  private(set) var forgottenThrough: TransactionID
  private let capacity: Int

  /// Answers that are looked at when there is one too many. It divides no usual capacity, so that each
  /// has its turn where all are waited for.
  private static let lookedAt = 7

  /// The answers that a journal tells.
  /// - Parameter capacity: How many are kept; as many again where callers wait for them.
  init(_ journal: CoordinatorJournal, capacity: Int) {
    self.capacity = capacity
    forgottenThrough = journal.forgottenThrough
    for commit in journal.commits {
      answers[commit.request] = commit.reply
      transactions[commit.request] = commit.transaction
      order.append(commit.request)
      callers[commit.transaction] = commit.request
    }
  }

  subscript(id: RequestID) -> TransactionReply? { answers[id] }

  /// Who has asked for a transaction, as far as that is known.
  func caller(of transaction: TransactionID) -> RequestID? { callers[transaction] }

  /// A transaction begins for a request.
  mutating func began(_ transaction: TransactionID, for id: RequestID) {
    callers[transaction] = id
  }

  /// A transaction has ended without a commit; returns who had asked for it.
  mutating func ended(_ transaction: TransactionID) -> RequestID? {
    callers.removeValue(forKey: transaction)
  }

  /// Nothing is known of the transactions up to this one.
  mutating func forget(through transaction: TransactionID) {
    forgottenThrough = max(forgottenThrough, transaction)
  }

  /// A caller waits for no answer to a request before this one: those may be forgotten first.
  mutating func acknowledge(_ caller: String, before oldest: UInt64) {
    awaited[caller] = max(awaited[caller] ?? 0, oldest)
    guard awaited.count > 2 * capacity else { return }
    let answered = Set(answers.keys.map(\.caller))
    awaited = awaited.filter { answered.contains($0.key) }
  }

  /// A caller that was told that none has moved is to ask anew under the same number.
  mutating func renew(_ id: RequestID) {
    guard case .atomic(let reply) = answers[id], !reply.isCommitted else { return }
    answers[id] = nil
    transactions[id] = nil
    let others = order.removeAll().filter { $0 != id }
    order.prepend(contentsOf: others)
  }

  /// Keeps an answer, and forgets the oldest where there are too many.
  /// - Parameters:
  ///   - transaction: The one that the request was tried by.
  ///   - told: Of each participant that tells its steps, the last transaction that it has told of.
  ///   - isUnderWay: Whether not all participants have acknowledged a transaction: they need its record.
  /// - Returns: The commits whose records are of no use any more.
  mutating func keep(
    _ reply: TransactionReply, of id: RequestID, by transaction: TransactionID? = nil,
    told: [String: TransactionID] = [:], isUnderWay: (TransactionID) -> Bool
  ) -> [TransactionID] {
    if let transaction { transactions[id] = transaction }
    answers[id] = reply
    order.append(id)
    var forgotten: [TransactionID] = []
    // A few are looked at each time, so that many that are needed do not hold up all others.
    for _ in 0..<Self.lookedAt where order.count > capacity {
      guard let oldest = order.popFirst() else { break }
      if isNeeded(oldest, told, isUnderWay) {
        order.append(oldest)
        continue
      }
      let answer = answers.removeValue(forKey: oldest)
      guard let transaction = transactions.removeValue(forKey: oldest) else { continue }
      callers[transaction] = nil
      forget(through: transaction)
      if case .atomic(.committed) = answer { forgotten.append(transaction) }
    }
    return forgotten
  }

  /// Whether an answer must be kept: its participants need the record, or have still to tell of it, or its
  /// caller may ask again.
  private func isNeeded(
    _ id: RequestID, _ told: [String: TransactionID], _ isUnderWay: (TransactionID) -> Bool
  ) -> Bool {
    if let transaction = transactions[id] {
      if isUnderWay(transaction) || isUntold(id, transaction, told) { return true }
    }
    return order.count < 2 * capacity && id.number >= awaited[id.caller] ?? 0
  }

  /// Whether somebody has still to tell of a commit. Their number is bounded: whose steps are not taken
  /// takes none.
  private func isUntold(
    _ id: RequestID, _ transaction: TransactionID, _ told: [String: TransactionID]
  ) -> Bool {
    guard !told.isEmpty, case .atomic(.committed(_, let versions)) = answers[id] else {
      return false
    }
    return versions.keys.contains { told[$0].map { $0 < transaction } ?? false }
  }
}
