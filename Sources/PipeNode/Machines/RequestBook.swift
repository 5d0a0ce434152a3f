import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// The requests of clients: those that wait, and the answers to those that a client may still send again.
///
/// A request number is kept until its client has acknowledged the answer. Of answers that take much memory the
/// book drops the states, never the numbers. Where it holds too many numbers, it forgets whole clients, those that
/// were not heard for longest, and remembers the highest number that it has forgotten: a request with a number
/// up to that, of a client that the book does not know, is not applied.
package struct RequestBook {
  /// What to do with a request that has arrived.
  package enum Admission: Sendable {
    /// Apply it.
    case new
    /// It waits already; its answer goes to the connection that it came from last.
    case waiting
    case answered(RequestReply)
    /// There is no capacity; nothing is known of it afterwards, so the client may send it again.
    case full
    /// It may have been applied, and must not be applied now. Higher numbers than this one are new.
    case forgotten(through: UInt64)
  }

  /// A change that the journal has to keep.
  package enum Record: Hashable, Sendable {
    case clientForgotten(UInt64, through: UInt64)
    /// A request that was applied; or with version 0 one that is a dead letter, and why as a JSON string.
    case answered(RequestKey, version: UInt64, state: [UInt8])
    /// All requests of the client before this one.
    case acknowledged(UInt64, before: UInt64)
  }

  /// The bounds of a book.
  package struct Limits: Sendable {
    /// Unit: numbers of requests, and clients.
    package var numbers: Int
    /// The states of all answers together, but for the last few. Unit: bytes.
    package var byteCount: Int

    package init(numbers: Int = 65_536, byteCount: Int = 4 << 20) {
      self.numbers = numbers
      self.byteCount = byteCount
    }
  }

  private struct Client {
    /// The client waits for no answer to a request before this one, and never sends it again.
    var oldest: UInt64 = 0
    /// What was forgotten when the book began to know the client, which may have been among the forgotten ones.
    let forgottenThrough: UInt64
    /// By the numbers of the requests: those from `oldest` on, and the last one that is recorded.
    var answers: [UInt64: RequestReply] = [:]
    /// It stays in the journal until there is a later one: the next process knows the client by it.
    var lastRecorded: UInt64 = 0
    var waiting = 0
    /// Which of all admissions was its last.
    var lastHeard: UInt64 = 0

    /// The answers that are of no use where the client waits for none before a request.
    func acknowledged(before oldest: UInt64) -> [UInt64] {
      if oldest - self.oldest <= UInt64(answers.count) {
        (self.oldest..<oldest).filter { answers[$0] != nil }
      } else {
        answers.keys.filter { $0 < oldest }
      }
    }

    /// The highest number that cannot come again, and must not be applied where it does.
    var last: UInt64 { max(max(oldest, 1) - 1, answers.keys.max() ?? 0) }
  }

  /// Answers whose states stay whatever they take. Unit: answers.
  private static let statesKept = 8
  /// Changes that wait for the record of a request. Unit: changes.
  private static let changesKept = 1_024
  private let limits: Limits
  private var clients: [UInt64: Client] = [:]
  private var replies: [RequestKey: (RequestReply) -> Void] = [:]
  /// Of a client that is unknown, no request up to this number is applied.
  package private(set) var forgottenThrough: UInt64
  /// Clients, and the numbers of theirs.
  package private(set) var count = 0
  private var admissions: UInt64 = 0
  private var lastUnnamed: UInt64 = 0
  /// Answers with states, in the order in which they were given, and what the states take.
  private var stated = Queue<RequestKey>()
  private var byteCount = 0
  // Since the last record.
  private var applied: [RequestKey] = []
  private var shortened: Set<RequestKey> = []
  private var acknowledged: Set<UInt64> = []
  private var forgotten: [UInt64] = []

  package init(
    restored: [JournalContents.Request] = [], forgottenThrough: UInt64 = 0,
    limits: Limits = Limits()
  ) {
    self.forgottenThrough = forgottenThrough
    self.limits = limits
    for request in restored.sorted(by: { $0.version < $1.version }) {
      admissions += 1
      add(request.key.client)
      clients[request.key.client]?.lastHeard = admissions
      keep(request.key, RequestReply(recorded: request), isRecorded: true)
    }
  }

  // MARK: Requests

  /// Takes a request in.
  /// - Parameters:
  ///   - oldest: The client waits for no answer to a request before this one.
  ///   - hasCapacity: Whether a new one may wait.
  package mutating func admit(
    _ key: inout RequestKey, oldest: UInt64, hasCapacity: Bool,
    reply: @escaping (RequestReply) -> Void
  ) -> Admission {
    guard key.client != 0 else {
      guard hasCapacity else { return .full }
      lastUnnamed += 1
      key.id = lastUnnamed
      replies[key] = reply
      return .new
    }
    if let known = clients[key.client]?.oldest {
      // A copy on an earlier connection, which was read late.
      guard key.id >= known else { return .forgotten(through: forgottenThrough) }
      admissions += 1
      clients[key.client]?.lastHeard = admissions
      acknowledge(key.client, before: min(oldest, key.id))
      if let answer = clients[key.client]?.answers[key.id] { return .answered(answer) }
      if replies[key] != nil {
        replies[key] = reply
        return .waiting
      }
    }
    guard key.id > clients[key.client]?.forgottenThrough ?? forgottenThrough else {
      return .forgotten(through: forgottenThrough)
    }
    guard hasCapacity, makeRoom(beside: key.client) else { return .full }
    add(key.client)
    admissions += 1
    clients[key.client]?.lastHeard = admissions
    clients[key.client]?.waiting += 1
    count += 1
    acknowledge(key.client, before: min(oldest, key.id))
    replies[key] = reply
    return .new
  }

  /// Ends a request that was admitted as new. Returns what answers its client.
  /// - Parameter isDeadLetter: Whether it is a dead letter now, which the next process must know.
  package mutating func finish(
    _ key: RequestKey, _ reply: RequestReply, isDeadLetter: Bool = false
  ) -> ((RequestReply) -> Void)? {
    if let oldest = clients[key.client]?.oldest {
      clients[key.client]?.waiting -= 1
      count -= 1
      // Else the client waits for it no longer, and does not send it again.
      if key.id >= oldest {
        if isDeadLetter || reply.isApplied { applied.append(key) }
        keep(key, reply, isRecorded: isDeadLetter || reply.isApplied)
      }
    }
    return replies.removeValue(forKey: key)
  }

  /// Takes out what answers the requests that still wait; they will not be applied.
  package mutating func takeWaiting() -> [(RequestReply) -> Void] {
    defer { replies = [:] }
    return Array(replies.values)
  }

  // MARK: Answers

  private mutating func add(_ client: UInt64) {
    guard clients[client] == nil else { return }
    clients[client] = Client(forgottenThrough: forgottenThrough)
    count += 1
  }

  private mutating func keep(_ key: RequestKey, _ reply: RequestReply, isRecorded: Bool) {
    if isRecorded, let last = clients[key.client]?.lastRecorded, key.id > last {
      clients[key.client]?.lastRecorded = key.id
      if let oldest = clients[key.client]?.oldest, last < oldest { remove(last, of: key.client) }
    }
    if clients[key.client]?.answers.updateValue(reply, forKey: key.id) == nil { count += 1 }
    guard reply.stateByteCount > 0 else { return }
    byteCount += reply.stateByteCount
    stated.append(key)
    while byteCount > limits.byteCount, stated.count > Self.statesKept,
      let first = stated.popFirst()
    { dropState(of: first) }
    // Those that were acknowledged.
    while let first = stated.first, !hasState(first) { _ = stated.popFirst() }
    if stated.count > 2 * count + Self.statesKept { removeAcknowledged() }
  }

  private func hasState(_ key: RequestKey) -> Bool {
    clients[key.client]?.answers[key.id].map { $0.stateByteCount > 0 } ?? false
  }

  private mutating func removeAcknowledged() {
    for key in stated.removeAll() where hasState(key) { stated.append(key) }
  }

  /// Keeps of an answer what is small.
  private mutating func dropState(of key: RequestKey) {
    guard let answer = clients[key.client]?.answers[key.id] else { return }
    byteCount -= answer.stateByteCount
    clients[key.client]?.answers[key.id] = answer.withoutState
    if answer.isApplied { shortened.insert(key) }
  }

  private mutating func acknowledge(_ client: UInt64, before oldest: UInt64) {
    guard let before = clients[client]?.oldest, oldest > before else { return }
    for id in clients[client]?.acknowledged(before: oldest) ?? [] {
      if clients[client]?.lastRecorded == id {
        dropState(of: RequestKey(client: client, id: id))
      } else {
        remove(id, of: client)
      }
    }
    clients[client]?.oldest = oldest
  }

  private mutating func remove(_ id: UInt64, of client: UInt64) {
    guard let answer = clients[client]?.answers.removeValue(forKey: id) else { return }
    count -= 1
    byteCount -= answer.stateByteCount
    // Of one that is not recorded it does no harm.
    acknowledged.insert(client)
  }

  // MARK: Clients

  /// Forgets clients where there are too many numbers. Returns whether there is capacity for one more.
  private mutating func makeRoom(beside client: UInt64) -> Bool {
    guard count >= limits.numbers else { return true }
    let idle = clients.filter { $0.key != client && $0.value.waiting == 0 }
      .sorted { $0.value.lastHeard < $1.value.lastHeard }
    // Several, since it takes a look at all.
    for (number, entry) in idle.prefix(max(1, idle.count / 16)) { forget(number, entry) }
    return count < limits.numbers
  }

  private mutating func forget(_ number: UInt64, _ client: Client) {
    clients[number] = nil
    count -= 1 + client.answers.count
    for answer in client.answers.values { byteCount -= answer.stateByteCount }
    forgottenThrough = max(forgottenThrough, client.last)
    forgotten.append(number)
  }

  // MARK: Records

  /// Whether a request was applied since the last record. The rest waits for the next one: an earlier journal
  /// knows more requests, and none that were not applied.
  package var hasUnrecorded: Bool {
    !applied.isEmpty
      || shortened.count + acknowledged.count + forgotten.count > Self.changesKept
  }

  /// Takes out what the journal lacks, in this order.
  package mutating func takeRecords() -> [Record] {
    defer { (applied, shortened, acknowledged, forgotten) = ([], [], [], []) }
    return forgotten.map { .clientForgotten($0, through: forgottenThrough) }
      + applied.compactMap { record(of: $0) }
      + shortened.compactMap { record(of: $0) }
      + acknowledged.compactMap { number in
        guard let client = clients[number] else { return nil }
        return .acknowledged(number, before: min(client.oldest, client.lastRecorded))
      }
  }

  /// `nil` where nothing of the request needs to be kept any more.
  private func record(of key: RequestKey) -> Record? {
    switch clients[key.client]?.answers[key.id] {
    case .moved(let version, let state): .answered(key, version: version, state: state)
    case .refused(.thrown(let reason), _, _):
      .answered(key, version: 0, state: JSONValue.string(reason).bytes)
    case .refused, .invalid, .busy, .unavailable, .forgotten, .done, .synchronized, .explained, nil:
      nil
    }
  }
}

extension RequestReply {
  fileprivate init(recorded request: JournalContents.Request) {
    if request.version > 0 {
      self = .moved(version: request.version, state: request.state)
    } else {
      let reason = (try? JSONValue(parsing: request.state))?.string ?? "it is a dead letter now"
      self = .refused(.thrown(reason), version: 0, state: [])
    }
  }

  fileprivate var isApplied: Bool { if case .moved = self { true } else { false } }

  /// What the state takes in it. Unit: bytes.
  fileprivate var stateByteCount: Int {
    switch self {
    case .moved(_, let state), .refused(_, _, let state): state.count
    case .busy, .invalid, .unavailable, .done, .synchronized, .explained, .forgotten: 0
    }
  }

  fileprivate var withoutState: RequestReply {
    switch self {
    case .moved(let version, _): .moved(version: version, state: [])
    case .refused(let refusal, let version, _): .refused(refusal, version: version, state: [])
    case .busy, .invalid, .unavailable, .done, .synchronized, .explained, .forgotten: self
    }
  }
}
