import PipeMachines
import PipeSupport
import PipeWire

/// The answers to callers, kept for callers that repeat a request, and the requests of
/// transactions.
///
/// An answer is kept until its caller has acknowledged it. The last acknowledged answers are kept,
/// too. When there are too many, whole clients are forgotten, the least recently heard first. A
/// request of an unknown client is not tried again if its number is not above the highest forgotten
/// one.
struct RequesterAnswers: Sendable {
  /// The records that are forgotten to make space for an answer.
  struct ForgottenRecords {
    /// The commits whose records are no longer needed.
    var transactions: [TransactionID] = []
    /// The highest request of a forgotten client; `nil` if no client was forgotten.
    var requestsThrough: UInt64?
  }

  fileprivate struct Requester: Sendable {
    /// The caller waits for no answer to a request before this one.
    var oldest: UInt64 = 0
    /// The forgotten requests when this caller became known. It may be one of the forgotten
    /// clients.
    let requestsForgotten: UInt64
    var lastHeard: UInt64 = 0
    /// The number of kept answers.
    var count = 0
    /// The last committed event of each effect, which emits its events one after the other.
    var committed: [UInt64: UInt64] = [:]
  }

  private var answers: [RequestID: TransactionReply] = [:]
  /// The answered requests, the oldest first.
  private var order = Queue<RequestID>()
  private var transactions: [RequestID: TransactionID] = [:]
  private var callers: [TransactionID: RequestID] = [:]
  private var requesters: [String: Requester] = [:]
  private var heard: UInt64 = 0
  /// The highest transaction that is completely forgotten.
  private(set) var forgottenThrough: TransactionID
  /// The highest forgotten request. No request of an unknown client up to this number is tried.
  private var requestsForgotten: UInt64
  private let capacity: Int
  /// The number of answers or callers above which clients are forgotten.
  private var limit: Int

  /// The number of answers to examine when there is one too many. It divides no usual capacity, so
  /// that each answer has its turn if callers wait for all of them.
  private static let examinedAnswerCount = 7
  /// The factor by which the limit grows for answers that callers have not acknowledged.
  private static let unacknowledgedFactor = 4

  /// Restores the answers of a journal.
  /// - Parameter capacity: The number of acknowledged answers to keep. Unacknowledged answers may
  ///   take four times that.
  init(_ journal: CoordinatorJournal, capacity: Int) {
    self.capacity = capacity
    limit = Self.unacknowledgedFactor * capacity
    forgottenThrough = journal.forgottenThrough
    requestsForgotten = journal.requestsForgotten
    for commit in journal.commits {
      transactions[commit.request] = commit.transaction
      callers[commit.transaction] = commit.request
      add(commit.reply, of: commit.request)
    }
  }

  /// The answer to a request, if it is known.
  subscript(id: RequestID) -> TransactionReply? {
    if let answer = answers[id] { return answer }
    // An event that an effect emits again after later ones were taken: its step was applied long
    // ago.
    guard let effect = id.effect, let last = requesters[id.caller]?.committed[effect],
      id.number < last
    else { return nil }
    return .atomic(.committed(.zero, versions: [:]))
  }

  /// Returns the highest forgotten number if a request is forgotten or may be: it must not be
  /// tried. Otherwise returns `nil`.
  func forgotten(_ id: RequestID) -> UInt64? {
    guard id.isFromClient else { return nil }
    if let caller = requesters[id.caller], id.number < caller.oldest { return requestsForgotten }
    let last = requesters[id.caller]?.requestsForgotten ?? requestsForgotten
    return id.number <= last ? requestsForgotten : nil
  }

  /// Notes a request of a caller.
  mutating func heard(_ caller: String) {
    heard += 1
    registerRequester(caller)
    requesters[caller]?.lastHeard = heard
  }

  /// Returns the request of a transaction, if it is known.
  func caller(of transaction: TransactionID) -> RequestID? { callers[transaction] }

  /// Notes that a transaction begins for a request.
  mutating func began(_ transaction: TransactionID, for id: RequestID) {
    callers[transaction] = id
  }

  /// Notes that a transaction has ended without a commit. Returns its request.
  mutating func ended(_ transaction: TransactionID) -> RequestID? {
    callers.removeValue(forKey: transaction)
  }

  /// Forgets the transactions up to this one.
  mutating func forget(through transaction: TransactionID) {
    forgottenThrough = max(forgottenThrough, transaction)
  }

  /// Notes that a caller waits for no answer to a request before this one, and never repeats such a
  /// request.
  mutating func acknowledge(_ caller: String, before oldest: UInt64) {
    registerRequester(caller)
    requesters[caller]?.acknowledge(before: oldest)
  }

  /// Allows a request to be tried again under the same number. Its caller was answered that no
  /// participant has moved.
  mutating func allowRetry(_ id: RequestID) {
    guard case .atomic(let reply) = answers[id], !reply.isCommitted else { return }
    remove(id)
    transactions[id] = nil
    let others = order.removeAll().filter { $0 != id }
    order.prepend(contentsOf: others)
  }

  /// Keeps an answer, and forgets others if there are too many.
  /// - Parameters:
  ///   - transaction: The transaction that tried the request.
  ///   - reported: The last transaction that each participant with step reports has reported.
  ///   - isInProgress: Whether some participants have not acknowledged a transaction: they need its
  ///     record.
  mutating func keep(
    _ reply: TransactionReply, of id: RequestID, by transaction: TransactionID? = nil,
    reported: [String: TransactionID] = [:], isInProgress: (TransactionID) -> Bool
  ) -> ForgottenRecords {
    if let transaction { transactions[id] = transaction }
    add(reply, of: id)
    var forgotten = ForgottenRecords()
    // Only a few are examined each time, so that many needed answers do not delay all others.
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
      // If most answers are needed, the clients are not searched each time.
      limit = max(
        Self.unacknowledgedFactor * capacity, max(order.count, requesters.count) / 16 * 17)
    }
    return forgotten
  }

  private mutating func registerRequester(_ caller: String) {
    if requesters[caller] == nil {
      requesters[caller] = Requester(requestsForgotten: requestsForgotten)
    }
  }

  private mutating func add(_ reply: TransactionReply, of id: RequestID) {
    registerRequester(id.caller)
    if answers.updateValue(reply, forKey: id) == nil { requesters[id.caller]?.count += 1 }
    order.append(id)
    guard case .atomic(.committed) = reply, let effect = id.effect else { return }
    let last = requesters[id.caller]?.committed[effect] ?? 0
    requesters[id.caller]?.committed[effect] = max(last, id.number)
  }

  private mutating func remove(_ id: RequestID) {
    if answers.removeValue(forKey: id) != nil { requesters[id.caller]?.count -= 1 }
  }

  private mutating func forget(_ id: RequestID, _ forgotten: inout ForgottenRecords) {
    let answer = answers[id]
    remove(id)
    guard let transaction = transactions.removeValue(forKey: id) else { return }
    callers[transaction] = nil
    forget(through: transaction)
    if case .atomic(.committed) = answer { forgotten.transactions.append(transaction) }
  }

  /// Whether the caller may repeat the request, and must get the same answer.
  private func mayBeRepeated(_ id: RequestID) -> Bool {
    guard id.number >= requesters[id.caller]?.oldest ?? 0, !id.isUnnamed else { return false }
    guard let effect = id.effect, let last = requesters[id.caller]?.committed[effect] else {
      return true
    }
    return id.number >= last
  }

  /// Whether participants need the record of a request, or must still report its step.
  private func isRecordRequired(
    _ id: RequestID, _ reported: [String: TransactionID], _ isInProgress: (TransactionID) -> Bool
  ) -> Bool {
    guard let transaction = transactions[id] else { return false }
    return isInProgress(transaction) || isUnreported(id, transaction, reported)
  }

  /// Whether a participant must still report the step of a commit. The number of such commits is
  /// bounded: a participant whose reports are not taken accepts no more events.
  private func isUnreported(
    _ id: RequestID, _ transaction: TransactionID, _ reported: [String: TransactionID]
  ) -> Bool {
    guard !reported.isEmpty, case .atomic(.committed(_, let versions)) = answers[id] else {
      return false
    }
    return versions.keys.contains { reported[$0].map { $0 < transaction } ?? false }
  }

  /// Forgets the least recently heard clients with all their answers, except for clients with
  /// needed answers.
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
    .sorted { $0.value.lastHeard < $1.value.lastHeard }
    // Forgets several at a time, since each search examines all clients.
    let forgottenClients = Set(clients.prefix(max(1, clients.count / 16)).map(\.key))
    guard !forgottenClients.isEmpty else { return }
    for caller in forgottenClients {
      requestsForgotten = max(requestsForgotten, requesters[caller]?.last ?? 0)
    }
    for id in order.removeAll() {
      guard forgottenClients.contains(id.caller) else {
        order.append(id)
        continue
      }
      requestsForgotten = max(requestsForgotten, id.number)
      forget(id, &forgotten)
    }
    for caller in forgottenClients { requesters[caller] = nil }
    forgotten.requestsThrough = requestsForgotten
  }
}

extension RequesterAnswers.Requester {
  /// The highest acknowledged request.
  fileprivate var last: UInt64 { max(oldest, 1) - 1 }

  fileprivate mutating func acknowledge(before oldest: UInt64) {
    guard oldest > self.oldest else { return }
    self.oldest = oldest
    // Effects whose events are all acknowledged have ended.
    if !committed.isEmpty { committed = committed.filter { $0.value >= oldest } }
  }
}

/// The callers that wait for an answer of a coordinator, by request.
struct CoordinatorRequesters {
  private struct Requester {
    var reply: Reply
    /// The composite of the requested event; `nil` if the request is for no event.
    var composite: String?
    /// The time of the first request, by the steady clock. Unit: nanoseconds.
    var since: Int64
  }

  private var callers: [RequestID: Requester] = [:]
  private var lastUnnamed: UInt64 = 0
  /// The number of all answers, and of answers that no participant has moved.
  private(set) var answered: UInt64 = 0
  private(set) var refused: UInt64 = 0
  /// The outcomes of requests for a composite's events, by composite.
  private(set) var requests: [String: NodeStatus.Requests] = [:]

  /// Keeps the closure that answers a caller, in place of the closure of its previous request.
  mutating func keep(_ id: RequestID, of composite: String? = nil, _ reply: @escaping Reply) {
    let since = callers[id]?.since ?? BootClock.nanoseconds
    callers[id] = Requester(reply: reply, composite: composite, since: since)
  }

  /// Removes and returns the closure that answers a caller, and counts the answer.
  mutating func take(_ id: RequestID, for reply: TransactionReply) -> Reply? {
    answered += 1
    switch reply {
    case .atomic(let reply) where !reply.isCommitted: refused += 1
    case .atomic, .broadcast: break
    }
    guard let caller = callers.removeValue(forKey: id) else { return nil }
    if let composite = caller.composite {
      let time = BootClock.nanoseconds - caller.since
      requests[composite, default: .init()].count(reply.outcome, nanoseconds: time)
    }
    return caller.reply
  }

  /// Removes and returns the closure that answers a caller without the outcome of its request.
  mutating func take(_ id: RequestID) -> Reply? { callers.removeValue(forKey: id)?.reply }

  /// Returns a request id for a caller that gives none.
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
