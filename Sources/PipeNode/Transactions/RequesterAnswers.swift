import PipeMachines
import PipeSupport
import PipeWire

/// The stored answers to requesters ("callers"). If a caller repeats a request, it receives the
/// stored answer. Also stores the request of each transaction.
///
/// Each answer is stored until its caller has acknowledged it. The most recent acknowledged answers
/// are stored as well. If there are too many answers, clients are forgotten with all their answers,
/// beginning with the client that has been inactive for the longest time. A request of an unknown
/// client is executed only if its number is higher than the highest forgotten number.
struct RequesterAnswers: Sendable {
  /// The data that was forgotten to limit the number of answers.
  struct ForgottenRecords {
    /// The committed transactions whose records can be deleted.
    var transactions: [TransactionID] = []
    /// The highest request number of any forgotten client; `nil` if no client was forgotten.
    var requestsThrough: UInt64?
  }

  fileprivate struct Requester: Sendable {
    /// The number of the oldest request to which the caller may still expect an answer.
    var oldestNumber: UInt64 = 0
    /// The highest forgotten request number when this caller became known. The caller may have been
    /// known and forgotten before.
    let lastForgottenRequestNumber: UInt64
    var lastActivity: UInt64 = 0
    /// The number of stored answers.
    var count = 0
    /// The number of the last committed event of each effect. An effect emits its events one after
    /// another.
    var lastCommittedNumbersByEffect: [UInt64: UInt64] = [:]
  }

  private var answers: [RequestID: TransactionReply] = [:]
  /// The answered requests, the oldest first.
  private var order = Queue<RequestID>()
  private var transactionsByRequest: [RequestID: TransactionID] = [:]
  private var requestsByTransaction: [TransactionID: RequestID] = [:]
  private var requesters: [String: Requester] = [:]
  private var activityCount: UInt64 = 0
  /// The highest transaction that is forgotten. Its request and its outcome are unknown.
  private(set) var forgottenThrough: TransactionID
  /// The highest forgotten request number. Requests of unknown clients with this number or a lower
  /// number are not executed.
  private var lastForgottenRequestNumber: UInt64
  private let capacity: Int
  /// The number of answers or callers above which clients are forgotten.
  private var limit: Int

  /// The number of stored answers to examine for each new answer if there are too many. No usual
  /// capacity is a multiple of this number, so each answer is eventually examined, even if callers
  /// wait for all answers.
  private static let examinedAnswerCount = 7
  /// The ratio of the limit for all answers to the limit for acknowledged answers.
  private static let unacknowledgedFactor = 4

  /// Restores the answers from the contents of a journal.
  /// - Parameter capacity: The number of acknowledged answers to store. Up to four times as many
  ///   unacknowledged answers are stored.
  init(_ journal: CoordinatorJournal, capacity: Int) {
    self.capacity = capacity
    limit = Self.unacknowledgedFactor * capacity
    forgottenThrough = journal.forgottenThrough
    lastForgottenRequestNumber = journal.highestForgottenRequestNumber
    for commit in journal.commits {
      transactionsByRequest[commit.request] = commit.transaction
      requestsByTransaction[commit.transaction] = commit.request
      add(commit.reply, of: commit.request)
    }
  }

  /// The stored answer to a request; `nil` if there is none.
  subscript(id: RequestID) -> TransactionReply? {
    if let answer = answers[id] { return answer }
    // The effect has emitted an event again, although its later events were already committed. So
    // the step of this event was applied long ago.
    guard let effect = id.effect,
      let last = requesters[id.caller]?.lastCommittedNumbersByEffect[effect],
      id.number < last
    else { return nil }
    return .atomic(.committed(.zero, versions: [:]))
  }

  /// Returns the highest forgotten request number if the request may be forgotten and so must not
  /// be executed. Otherwise returns `nil`.
  func forgotten(_ id: RequestID) -> UInt64? {
    guard id.isFromClient else { return nil }
    if let caller = requesters[id.caller], id.number < caller.oldestNumber {
      return lastForgottenRequestNumber
    }
    let last = requesters[id.caller]?.lastForgottenRequestNumber ?? lastForgottenRequestNumber
    return id.number <= last ? lastForgottenRequestNumber : nil
  }

  /// Notes that a caller has just been active.
  mutating func noteActivity(of caller: String) {
    activityCount += 1
    registerRequester(caller)
    requesters[caller]?.lastActivity = activityCount
  }

  /// Returns the request of a transaction; `nil` if it is unknown.
  func caller(of transaction: TransactionID) -> RequestID? { requestsByTransaction[transaction] }

  /// Notes that a transaction begins for a request.
  mutating func began(_ transaction: TransactionID, for id: RequestID) {
    requestsByTransaction[transaction] = id
  }

  /// Notes that a transaction has ended without a commit. Returns its request.
  mutating func removeTransaction(_ transaction: TransactionID) -> RequestID? {
    requestsByTransaction.removeValue(forKey: transaction)
  }

  /// Forgets all transactions up to `transaction`.
  mutating func forget(through transaction: TransactionID) {
    forgottenThrough = max(forgottenThrough, transaction)
  }

  /// Notes that a caller does not wait for answers to requests with numbers below `oldest`, and
  /// never repeats such requests.
  mutating func acknowledge(_ caller: String, before oldest: UInt64) {
    registerRequester(caller)
    requesters[caller]?.acknowledge(before: oldest)
  }

  /// Allows another attempt at a request under the same number, after the answer that no
  /// participant has accepted the event.
  mutating func allowRetry(_ id: RequestID) {
    guard case .atomic(let reply) = answers[id], !reply.isCommitted else { return }
    remove(id)
    transactionsByRequest[id] = nil
    let others = order.removeAll().filter { $0 != id }
    order.prepend(contentsOf: others)
  }

  /// Stores an answer, and forgets other answers if there are too many.
  /// - Parameters:
  ///   - transaction: The transaction that was begun for the request; `nil` if there was none.
  ///   - reported: The last transaction that each participant with step reports has reported, by
  ///     participant.
  ///   - isInProgress: Returns whether some participants have not acknowledged a transaction, and
  ///     so still require its record.
  mutating func keep(
    _ reply: TransactionReply, of id: RequestID, by transaction: TransactionID? = nil,
    reported: [String: TransactionID] = [:], isInProgress: (TransactionID) -> Bool
  ) -> ForgottenRecords {
    if let transaction { transactionsByRequest[id] = transaction }
    add(reply, of: id)
    var forgotten = ForgottenRecords()
    // Examines only a few answers each time, so that this takes little time even if many answers
    // are still required.
    for _ in 0..<Self.examinedAnswerCount where order.count > capacity {
      guard let oldest = order.popFirst() else { break }
      if mayBeRepeated(oldest) || isRecordRequired(oldest, reported, isInProgress) {
        order.append(oldest)
      } else {
        forget(oldest, &forgotten)
      }
    }
    if max(order.count, requesters.count) > limit {
      forgetClients(&forgotten, reported, isInProgress)
      // Raises the limit if most answers are still required. Otherwise, each call would search all
      // clients.
      limit = max(
        Self.unacknowledgedFactor * capacity, max(order.count, requesters.count) / 16 * 17)
    }
    return forgotten
  }

  private mutating func registerRequester(_ caller: String) {
    if requesters[caller] == nil {
      requesters[caller] = Requester(lastForgottenRequestNumber: lastForgottenRequestNumber)
    }
  }

  private mutating func add(_ reply: TransactionReply, of id: RequestID) {
    registerRequester(id.caller)
    if answers.updateValue(reply, forKey: id) == nil { requesters[id.caller]?.count += 1 }
    order.append(id)
    guard case .atomic(.committed) = reply, let effect = id.effect else { return }
    let last = requesters[id.caller]?.lastCommittedNumbersByEffect[effect] ?? 0
    requesters[id.caller]?.lastCommittedNumbersByEffect[effect] = max(last, id.number)
  }

  private mutating func remove(_ id: RequestID) {
    if answers.removeValue(forKey: id) != nil { requesters[id.caller]?.count -= 1 }
  }

  private mutating func forget(_ id: RequestID, _ forgotten: inout ForgottenRecords) {
    let answer = answers[id]
    remove(id)
    guard let transaction = transactionsByRequest.removeValue(forKey: id) else { return }
    requestsByTransaction[transaction] = nil
    forget(through: transaction)
    if case .atomic(.committed) = answer { forgotten.transactions.append(transaction) }
  }

  /// Whether the caller may repeat the request. The caller must then receive the same answer.
  private func mayBeRepeated(_ id: RequestID) -> Bool {
    guard id.number >= requesters[id.caller]?.oldestNumber ?? 0, !id.isUnnamed else { return false }
    guard let effect = id.effect,
      let last = requesters[id.caller]?.lastCommittedNumbersByEffect[effect]
    else {
      return true
    }
    return id.number >= last
  }

  /// Whether participants still need the record of a request's commit, or must still report its
  /// step.
  private func isRecordRequired(
    _ id: RequestID, _ reported: [String: TransactionID], _ isInProgress: (TransactionID) -> Bool
  ) -> Bool {
    guard let transaction = transactionsByRequest[id] else { return false }
    return isInProgress(transaction) || isUnreported(id, transaction, reported)
  }

  /// Whether a participant must still report the step of a commit. The number of such commits is
  /// bounded: a participant accepts no more events until its earlier reports are processed.
  private func isUnreported(
    _ id: RequestID, _ transaction: TransactionID, _ reported: [String: TransactionID]
  ) -> Bool {
    guard !reported.isEmpty, case .atomic(.committed(_, let versions)) = answers[id] else {
      return false
    }
    return versions.keys.contains { reported[$0].map { $0 < transaction } ?? false }
  }

  /// Forgets the clients that have been inactive for the longest time, with all their answers.
  /// Keeps clients whose answers are still required.
  private mutating func forgetClients(
    _ forgotten: inout ForgottenRecords, _ reported: [String: TransactionID],
    _ isInProgress: (TransactionID) -> Bool
  ) {
    var protectedClients: Set<String> = []
    for id in answers.keys where isRecordRequired(id, reported, isInProgress) {
      protectedClients.insert(id.caller)
    }
    let clients = requesters.filter {
      RequestID.isClient($0.key) && !protectedClients.contains($0.key)
    }
    .sorted { $0.value.lastActivity < $1.value.lastActivity }
    // Forgets several clients at a time, since each search examines all clients.
    let forgottenClients = Set(clients.prefix(max(1, clients.count / 16)).map(\.key))
    guard !forgottenClients.isEmpty else { return }
    for caller in forgottenClients {
      lastForgottenRequestNumber = max(lastForgottenRequestNumber, requesters[caller]?.last ?? 0)
    }
    for id in order.removeAll() {
      guard forgottenClients.contains(id.caller) else {
        order.append(id)
        continue
      }
      lastForgottenRequestNumber = max(lastForgottenRequestNumber, id.number)
      forget(id, &forgotten)
    }
    for caller in forgottenClients { requesters[caller] = nil }
    forgotten.requestsThrough = lastForgottenRequestNumber
  }
}

extension RequesterAnswers.Requester {
  /// The number of the last acknowledged request; 0 if there is none.
  fileprivate var last: UInt64 { max(oldestNumber, 1) - 1 }

  fileprivate mutating func acknowledge(before oldest: UInt64) {
    guard oldest > oldestNumber else { return }
    oldestNumber = oldest
    // If all events of an effect are acknowledged, the effect has ended, so its last event is no
    // longer required.
    if !lastCommittedNumbersByEffect.isEmpty {
      lastCommittedNumbersByEffect = lastCommittedNumbersByEffect.filter { $0.value >= oldest }
    }
  }
}

/// The callers that wait for an answer from the coordinator, by request.
struct CoordinatorRequesters {
  private struct Requester {
    var reply: Reply
    /// The composite of the requested event; `nil` if the caller has not requested an event.
    var composite: String?
    /// The time at which the first copy of the request arrived. Unit: nanoseconds of ``BootClock``.
    var since: Int64
  }

  private var callers: [RequestID: Requester] = [:]
  private var lastUnnamed: UInt64 = 0
  /// The number of all answers.
  private(set) var answeredCount: UInt64 = 0
  /// The number of answers that say that no participant has accepted the event.
  private(set) var refusedCount: UInt64 = 0
  /// The number of requests with each outcome, by composite.
  private(set) var requestCountsByComposite: [String: NodeStatus.Requests] = [:]

  /// Stores the closure that answers a caller. Replaces the closure of an earlier copy of the same
  /// request.
  mutating func keep(_ id: RequestID, of composite: String? = nil, _ reply: @escaping Reply) {
    let since = callers[id]?.since ?? BootClock.nanoseconds
    callers[id] = Requester(reply: reply, composite: composite, since: since)
  }

  /// Removes and returns the closure that answers a caller, and counts the answer. Returns `nil` if
  /// the caller does not wait.
  mutating func take(_ id: RequestID, for reply: TransactionReply) -> Reply? {
    answeredCount += 1
    switch reply {
    case .atomic(let reply) where !reply.isCommitted: refusedCount += 1
    case .atomic, .broadcast: break
    }
    guard let caller = callers.removeValue(forKey: id) else { return nil }
    if let composite = caller.composite {
      let time = BootClock.nanoseconds - caller.since
      requestCountsByComposite[composite, default: .init()].count(reply.outcome, nanoseconds: time)
    }
    return caller.reply
  }

  /// Removes and returns the closure that answers a caller, for an answer without an outcome.
  mutating func take(_ id: RequestID) -> Reply? { callers.removeValue(forKey: id)?.reply }

  /// Returns a request id for a caller that has not provided a request id.
  mutating func unnamed(in epoch: UInt64) -> RequestID {
    lastUnnamed += 1
    return RequestID(caller: "\(RequestID.unnamedPrefix)\(epoch)", number: lastUnnamed)
  }
}

extension NodeStatus.Requests {
  fileprivate mutating func count(_ outcome: TransactionReply.Outcome, nanoseconds: Int64) {
    outcomes[outcome.rawValue, default: 0] += 1
    durations.add(nanoseconds: nanoseconds)
  }
}
