import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// The requests of clients: the waiting requests, and the answers to requests that a client may
/// still repeat.
///
/// The book keeps a request number until its client has acknowledged the answer. When answers take
/// too much memory, the book drops their states, never their numbers.
///
/// When it holds too many numbers, it forgets whole clients, the least recently heard first, and
/// remembers the highest number that it has forgotten. A request of an unknown client is not
/// applied if its number is not above that.
package struct RequestRegistry {
  /// The decision about a request that has arrived.
  package enum Admission: Sendable {
    /// Apply the request.
    case new
    /// The request waits already. Its answer goes to the connection that it came from last.
    case waiting
    case answered(RequestReply)
    /// There is no capacity. The book keeps nothing of the request, so the client may send it
    /// again.
    case full
    /// The request may have been applied, and must not be applied now. Higher numbers than this one
    /// are new.
    case forgotten(through: UInt64)
  }

  /// A change that the journal must record.
  package enum Record: Hashable, Sendable {
    case clientForgotten(UInt64, through: UInt64)
    /// A request that was applied. With version 0, the request is a dead letter, and the state is
    /// the reason as a JSON string.
    case answered(RequestKey, version: UInt64, state: [UInt8])
    /// The acknowledgement of all the client's requests before this one.
    case acknowledged(UInt64, before: UInt64)
  }

  /// The bounds of a book.
  package struct Limits: Sendable {
    /// The maximum number of request numbers and clients together.
    package var numbers: Int
    /// The maximum size of the states of all answers, except for the last few. Unit: bytes.
    package var byteCount: Int

    package init(numbers: Int = 65_536, byteCount: Int = 4 << 20) {
      self.numbers = numbers
      self.byteCount = byteCount
    }
  }

  private struct Client {
    /// The client waits for no answer to a request before this one, and never sends it again.
    var oldest: UInt64 = 0
    /// The forgotten numbers when the book first saw the client, which may be one of the forgotten
    /// clients.
    let forgottenThrough: UInt64
    /// The answers by request number: from `oldest` on, and the last recorded answer.
    var answers: [UInt64: RequestReply] = [:]
    /// The number of the last recorded request. Its record stays in the journal until there is a
    /// later one: the next process recognizes the client by it.
    var lastRecorded: UInt64 = 0
    var waiting = 0
    /// The index of the client's last admission among all admissions.
    var lastAdmission: UInt64 = 0

    /// Returns the answers that are no longer needed once the client waits for no request before
    /// `oldest`.
    func acknowledged(before oldest: UInt64) -> [UInt64] {
      if oldest - self.oldest <= UInt64(answers.count) {
        (self.oldest..<oldest).filter { answers[$0] != nil }
      } else {
        answers.keys.filter { $0 < oldest }
      }
    }

    /// The highest number that was answered or acknowledged. A request up to this number must not
    /// be applied again.
    var last: UInt64 { max(max(oldest, 1) - 1, answers.keys.max() ?? 0) }
  }

  /// The number of latest answers that keep their states, whatever their size. Unit: answers.
  private static let keptStateCount = 8
  /// The maximum number of changes that wait for the record of a request. Unit: changes.
  private static let pendingChangeLimit = 1_024
  private let limits: Limits
  private var clients: [UInt64: Client] = [:]
  private var replies: [RequestKey: (RequestReply) -> Void] = [:]
  /// The highest forgotten number. No request of an unknown client is applied up to this number.
  package private(set) var forgottenThrough: UInt64
  /// The number of clients, of their waiting requests and of their answers.
  package private(set) var count = 0
  private var admissions: UInt64 = 0
  private var lastAnonymousID: UInt64 = 0
  /// The answers with states, in the order in which they were given, and the size of these states
  /// in bytes.
  private var answersWithState = Queue<RequestKey>()
  private var byteCount = 0
  // Changes since the last record.
  private var appliedRequests: [RequestKey] = []
  private var strippedAnswers: Set<RequestKey> = []
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
      clients[request.key.client]?.lastAdmission = admissions
      storeAnswer(request.key, RequestReply(recorded: request), isRecorded: true)
    }
  }

  // MARK: Requests

  /// Admits a request, or says why not.
  /// - Parameters:
  ///   - oldest: The client waits for no answer to a request before this one.
  ///   - hasCapacity: Whether a new request may wait.
  package mutating func admit(
    _ key: inout RequestKey, oldest: UInt64, hasCapacity: Bool,
    reply: @escaping (RequestReply) -> Void
  ) -> Admission {
    guard key.client != 0 else {
      guard hasCapacity else { return .full }
      lastAnonymousID += 1
      key.id = lastAnonymousID
      replies[key] = reply
      return .new
    }
    if let firstUnacknowledged = clients[key.client]?.oldest {
      // A copy that was sent on an earlier connection, and read late.
      guard key.id >= firstUnacknowledged else { return .forgotten(through: forgottenThrough) }
      admissions += 1
      clients[key.client]?.lastAdmission = admissions
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
    guard hasCapacity, evictClients(except: key.client) else { return .full }
    add(key.client)
    admissions += 1
    clients[key.client]?.lastAdmission = admissions
    clients[key.client]?.waiting += 1
    count += 1
    acknowledge(key.client, before: min(oldest, key.id))
    replies[key] = reply
    return .new
  }

  /// Finishes a request that was admitted as new. Returns the closure that answers its client.
  /// - Parameter isDeadLetter: Whether the request is a dead letter now, which the next process
  ///   must know.
  package mutating func finish(
    _ key: RequestKey, _ reply: RequestReply, isDeadLetter: Bool = false
  ) -> ((RequestReply) -> Void)? {
    if let oldest = clients[key.client]?.oldest {
      clients[key.client]?.waiting -= 1
      count -= 1
      // Otherwise the client no longer waits for the answer, and does not repeat the request.
      if key.id >= oldest {
        if isDeadLetter || reply.isApplied { appliedRequests.append(key) }
        storeAnswer(key, reply, isRecorded: isDeadLetter || reply.isApplied)
      }
    }
    return replies.removeValue(forKey: key)
  }

  /// Removes and returns the closures that answer the waiting requests, which will not be applied.
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

  private mutating func storeAnswer(_ key: RequestKey, _ reply: RequestReply, isRecorded: Bool) {
    if isRecorded, let last = clients[key.client]?.lastRecorded, key.id > last {
      clients[key.client]?.lastRecorded = key.id
      if let oldest = clients[key.client]?.oldest, last < oldest { remove(last, of: key.client) }
    }
    if clients[key.client]?.answers.updateValue(reply, forKey: key.id) == nil { count += 1 }
    guard reply.stateByteCount > 0 else { return }
    byteCount += reply.stateByteCount
    answersWithState.append(key)
    while byteCount > limits.byteCount, answersWithState.count > Self.keptStateCount,
      let first = answersWithState.popFirst()
    { dropState(of: first) }
    // These answers were acknowledged.
    while let first = answersWithState.first, !hasState(first) { _ = answersWithState.popFirst() }
    if answersWithState.count > 2 * count + Self.keptStateCount { removeAcknowledged() }
  }

  private func hasState(_ key: RequestKey) -> Bool {
    clients[key.client]?.answers[key.id].map { $0.stateByteCount > 0 } ?? false
  }

  private mutating func removeAcknowledged() {
    for key in answersWithState.removeAll() where hasState(key) { answersWithState.append(key) }
  }

  /// Drops the state of an answer. The rest of the answer is small.
  private mutating func dropState(of key: RequestKey) {
    guard let answer = clients[key.client]?.answers[key.id] else { return }
    byteCount -= answer.stateByteCount
    clients[key.client]?.answers[key.id] = answer.withoutState
    if answer.isApplied { strippedAnswers.insert(key) }
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
    // The acknowledgement of a request that is not recorded does no harm.
    acknowledged.insert(client)
  }

  // MARK: Clients

  /// Forgets clients if there are too many numbers. Returns whether there is capacity for
  /// another request.
  private mutating func evictClients(except client: UInt64) -> Bool {
    guard count >= limits.numbers else { return true }
    let idleClients = clients.filter { $0.key != client && $0.value.waiting == 0 }
      .sorted { $0.value.lastAdmission < $1.value.lastAdmission }
    // Forgets several at a time, since each search examines all clients.
    for (number, entry) in idleClients.prefix(max(1, idleClients.count / 16)) {
      evict(number, entry)
    }
    return count < limits.numbers
  }

  private mutating func evict(_ number: UInt64, _ client: Client) {
    clients[number] = nil
    count -= 1 + client.answers.count
    for answer in client.answers.values { byteCount -= answer.stateByteCount }
    forgottenThrough = max(forgottenThrough, client.last)
    forgotten.append(number)
  }

  // MARK: Records

  /// Whether a request was applied since the last record, or too many other changes wait.
  ///
  /// Other changes can wait for the next record. Without them, the journal knows more requests than
  /// necessary, but none that were not applied.
  package var hasUnrecordedChanges: Bool {
    !appliedRequests.isEmpty
      || strippedAnswers.count + acknowledged.count + forgotten.count > Self.pendingChangeLimit
  }

  /// Removes and returns the changes that the journal lacks, in the order to record them.
  package mutating func takeRecords() -> [Record] {
    defer { (appliedRequests, strippedAnswers, acknowledged, forgotten) = ([], [], [], []) }
    return forgotten.map { .clientForgotten($0, through: forgottenThrough) }
      + appliedRequests.compactMap { record(of: $0) }
      + strippedAnswers.compactMap { record(of: $0) }
      + acknowledged.compactMap { number in
        guard let client = clients[number] else { return nil }
        return .acknowledged(number, before: min(client.oldest, client.lastRecorded))
      }
  }

  /// Returns the record of a request; `nil` if nothing of the request must be kept any more.
  private func record(of key: RequestKey) -> Record? {
    switch clients[key.client]?.answers[key.id] {
    case .accepted(let version, let state): .answered(key, version: version, state: state)
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
      self = .accepted(version: request.version, state: request.state)
    } else {
      let reason =
        (try? JSONValue(parsing: request.state))?.string ?? "the event is now a dead "
        + "letter"
      self = .refused(.thrown(reason), version: 0, state: [])
    }
  }

  fileprivate var isApplied: Bool { if case .accepted = self { true } else { false } }

  /// The size of the state in the reply. Unit: bytes.
  fileprivate var stateByteCount: Int {
    switch self {
    case .accepted(_, let state), .refused(_, _, let state): state.count
    case .busy, .invalid, .unavailable, .done, .synchronized, .explained, .forgotten: 0
    }
  }

  /// The reply without its state.
  var withoutState: RequestReply {
    switch self {
    case .accepted(let version, _): .accepted(version: version, state: [])
    case .refused(let refusal, let version, _): .refused(refusal, version: version, state: [])
    case .busy, .invalid, .unavailable, .done, .synchronized, .explained, .forgotten: self
    }
  }
}
