import PipeMachines
import PipeSupport
import PipeWire

/// The answers that callers were given, for those who ask again; and whose transactions are whose.
///
/// An answer is kept until its caller has acknowledged it, and the last acknowledged ones beside. Where there are too
/// many, whole clients are forgotten, those that were not heard for longest: a request with a number up to the highest
/// forgotten one, of a client that is unknown, is not tried again.
struct CallerAnswers: Sendable {
  /// What is forgotten to make room for an answer.
  struct Forgotten {
    /// The commits whose records are of no use any more.
    var transactions: [TransactionID] = []
    /// The highest request of a client that was forgotten; `nil` where none was.
    var requestsThrough: UInt64?
  }

  fileprivate struct Caller: Sendable {
    /// The caller waits for no answer to a request before this one.
    var oldest: UInt64 = 0
    /// What was forgotten when this caller became known, which may have been among the forgotten ones.
    let requestsForgotten: UInt64
    var lastHeard: UInt64 = 0
    /// Answers that are kept.
    var count = 0
    /// Of each effect, the last of its events that was committed: it gives them one after the other.
    var committed: [UInt64: UInt64] = [:]
  }

  private var answers: [RequestID: TransactionReply] = [:]
  /// The answered requests, the oldest first.
  private var order = Queue<RequestID>()
  private var transactions: [RequestID: TransactionID] = [:]
  private var callers: [TransactionID: RequestID] = [:]
  private var known: [String: Caller] = [:]
  private var heard: UInt64 = 0
  /// The highest transaction of which nothing is known any more.
  private(set) var forgottenThrough: TransactionID
  /// Of a client that is unknown, no request up to this number is tried.
  private var requestsForgotten: UInt64
  private let capacity: Int
  /// Answers, and callers, before clients are forgotten.
  private var limit: Int

  /// Answers that are looked at when there is one too many. It divides no usual capacity, so that each
  /// has its turn where all are waited for.
  private static let lookedAt = 7
  /// How many times the capacity is kept where callers have not acknowledged the answers.
  private static let awaitedFactor = 4

  /// The answers that a journal tells.
  /// - Parameter capacity: How many are kept that were acknowledged; and how many of clients, four times as many.
  init(_ journal: CoordinatorJournal, capacity: Int) {
    self.capacity = capacity
    limit = Self.awaitedFactor * capacity
    forgottenThrough = journal.forgottenThrough
    requestsForgotten = journal.requestsForgotten
    for commit in journal.commits {
      transactions[commit.request] = commit.transaction
      callers[commit.transaction] = commit.request
      add(commit.reply, of: commit.request)
    }
  }

  /// What a request was answered.
  subscript(id: RequestID) -> TransactionReply? {
    if let answer = answers[id] { return answer }
    // An event that an effect gives again, after later ones were taken: its step is applied long since.
    guard let effect = id.effect, let last = known[id.caller]?.committed[effect], id.number < last
    else { return nil }
    return .atomic(.committed(.zero, versions: [:]))
  }

  /// Up to which number requests are forgotten, where a request is among these or may be: it must not be tried.
  func forgotten(_ id: RequestID) -> UInt64? {
    guard id.isOfClient else { return nil }
    if let caller = known[id.caller], id.number < caller.oldest { return requestsForgotten }
    let last = known[id.caller]?.requestsForgotten ?? requestsForgotten
    return id.number <= last ? requestsForgotten : nil
  }

  /// A caller asks for something.
  mutating func heard(_ caller: String) {
    heard += 1
    meet(caller)
    known[caller]?.lastHeard = heard
  }

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

  /// A caller waits for no answer to a request before this one, and never sends it again.
  mutating func acknowledge(_ caller: String, before oldest: UInt64) {
    meet(caller)
    known[caller]?.acknowledge(before: oldest)
  }

  /// A caller that was told that none has moved is to ask anew under the same number.
  mutating func renew(_ id: RequestID) {
    guard case .atomic(let reply) = answers[id], !reply.isCommitted else { return }
    remove(id)
    transactions[id] = nil
    let others = order.removeAll().filter { $0 != id }
    order.prepend(contentsOf: others)
  }

  /// Keeps an answer, and forgets others where there are too many.
  /// - Parameters:
  ///   - transaction: The one that the request was tried by.
  ///   - told: Of each participant that tells its steps, the last transaction that it has told of.
  ///   - isUnderWay: Whether not all participants have acknowledged a transaction: they need its record.
  mutating func keep(
    _ reply: TransactionReply, of id: RequestID, by transaction: TransactionID? = nil,
    told: [String: TransactionID] = [:], isUnderWay: (TransactionID) -> Bool
  ) -> Forgotten {
    if let transaction { transactions[id] = transaction }
    add(reply, of: id)
    var forgotten = Forgotten()
    // A few are looked at each time, so that many that are needed do not hold up all others.
    for _ in 0..<Self.lookedAt where order.count > capacity {
      guard let oldest = order.popFirst() else { break }
      if isAwaited(oldest) || isNeeded(oldest, told, isUnderWay) {
        order.append(oldest)
      } else {
        forget(oldest, &forgotten)
      }
    }
    if max(order.count, known.count) > limit {
      forgetClients(&forgotten, told, isUnderWay)
      // Where most are needed, it is not looked at each time.
      limit = max(Self.awaitedFactor * capacity, max(order.count, known.count) / 16 * 17)
    }
    return forgotten
  }

  private mutating func meet(_ caller: String) {
    if known[caller] == nil { known[caller] = Caller(requestsForgotten: requestsForgotten) }
  }

  private mutating func add(_ reply: TransactionReply, of id: RequestID) {
    meet(id.caller)
    if answers.updateValue(reply, forKey: id) == nil { known[id.caller]?.count += 1 }
    order.append(id)
    guard case .atomic(.committed) = reply, let effect = id.effect else { return }
    let last = known[id.caller]?.committed[effect] ?? 0
    known[id.caller]?.committed[effect] = max(last, id.number)
  }

  private mutating func remove(_ id: RequestID) {
    if answers.removeValue(forKey: id) != nil { known[id.caller]?.count -= 1 }
  }

  private mutating func forget(_ id: RequestID, _ forgotten: inout Forgotten) {
    let answer = answers[id]
    remove(id)
    guard let transaction = transactions.removeValue(forKey: id) else { return }
    callers[transaction] = nil
    forget(through: transaction)
    if case .atomic(.committed) = answer { forgotten.transactions.append(transaction) }
  }

  /// Whether a caller may ask again, and must be answered the same.
  private func isAwaited(_ id: RequestID) -> Bool {
    guard id.number >= known[id.caller]?.oldest ?? 0, !id.isUnnamed else { return false }
    guard let effect = id.effect, let last = known[id.caller]?.committed[effect] else {
      return true
    }
    return id.number >= last
  }

  /// Whether participants need the record of a request, or have still to tell of it.
  private func isNeeded(
    _ id: RequestID, _ told: [String: TransactionID], _ isUnderWay: (TransactionID) -> Bool
  ) -> Bool {
    guard let transaction = transactions[id] else { return false }
    return isUnderWay(transaction) || isUntold(id, transaction, told)
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

  /// Forgets the clients that were not heard for longest, with all their answers, but those of which some are needed.
  private mutating func forgetClients(
    _ forgotten: inout Forgotten, _ told: [String: TransactionID],
    _ isUnderWay: (TransactionID) -> Bool
  ) {
    var needed: Set<String> = []
    for id in answers.keys where isNeeded(id, told, isUnderWay) { needed.insert(id.caller) }
    let clients = known.filter { RequestID.isClient($0.key) && !needed.contains($0.key) }
      .sorted { $0.value.lastHeard < $1.value.lastHeard }
    // Several, since it takes a look at all.
    let gone = Set(clients.prefix(max(1, clients.count / 16)).map(\.key))
    guard !gone.isEmpty else { return }
    for caller in gone { requestsForgotten = max(requestsForgotten, known[caller]?.last ?? 0) }
    for id in order.removeAll() {
      guard gone.contains(id.caller) else {
        order.append(id)
        continue
      }
      requestsForgotten = max(requestsForgotten, id.number)
      forget(id, &forgotten)
    }
    for caller in gone { known[caller] = nil }
    forgotten.requestsThrough = requestsForgotten
  }
}

extension CallerAnswers.Caller {
  /// The highest request that is acknowledged.
  fileprivate var last: UInt64 { max(oldest, 1) - 1 }

  fileprivate mutating func acknowledge(before oldest: UInt64) {
    guard oldest > self.oldest else { return }
    self.oldest = oldest
    // Effects all of whose events are acknowledged have ended.
    if !committed.isEmpty { committed = committed.filter { $0.value >= oldest } }
  }
}

/// Those who wait for an answer of a coordinator, by their requests.
struct CoordinatorCallers {
  private struct Caller {
    var reply: Reply
    /// The composite whose event it asks for; `nil` where it asks for no event.
    var composite: String?
    /// When it first asked, by the steady clock. Unit: nanoseconds.
    var since: Int64
  }

  private var callers: [RequestID: Caller] = [:]
  private var lastUnnamed: UInt64 = 0
  /// How many were answered, and how many of these that nobody has moved.
  private(set) var answered: UInt64 = 0
  private(set) var refused: UInt64 = 0
  /// What was answered to those who asked for a composite's events, by the composite.
  private(set) var requests: [String: NodeStatus.Requests] = [:]

  /// Keeps what answers a caller, in place of what did when it last asked.
  mutating func keep(_ id: RequestID, of composite: String? = nil, _ reply: @escaping Reply) {
    let since = callers[id]?.since ?? BootClock.nanoseconds
    callers[id] = Caller(reply: reply, composite: composite, since: since)
  }

  /// Takes out what answers a caller, and counts the answer.
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

  /// Takes out what answers a caller that is not told what became of its request.
  mutating func take(_ id: RequestID) -> Reply? { callers.removeValue(forKey: id)?.reply }

  /// A number for a caller that gives none.
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
