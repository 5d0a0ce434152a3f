import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// The requests of clients: the waiting requests, and the answers to requests that a client may
/// still repeat.
///
/// The registry keeps the number of a request until the client has acknowledged the answer. If the
/// answers require too much memory, the registry drops their states, but never their numbers.
///
/// If there are too many numbers, the registry forgets clients with all their requests, beginning
/// with the client that has been inactive for the longest time. The registry remembers the highest
/// forgotten number. A request of an unknown client is applied only if its number is higher.
package struct RequestRegistry {
  /// The decision about a request that has arrived.
  package enum Admission: Sendable {
    /// The request is new, so its event must be applied.
    case new
    /// The request is already waiting. Its answer will be sent to the connection on which the
    /// client last repeated the request.
    case waiting
    case answered(RequestReply)
    /// There is no capacity for the request. The registry has not stored it, so the client may send
    /// it again.
    case full
    /// The request may have been applied before, so its event must not be applied. Requests with
    /// numbers above `through` are certainly new.
    case forgotten(through: UInt64)
  }

  /// A change that the journal must record.
  package enum Record: Hashable, Sendable {
    case clientForgotten(UInt64, through: UInt64)
    /// A request whose event was applied. If `version` is 0, the event became a dead letter, and
    /// `state` is the reason as a JSON string.
    case answered(RequestKey, version: UInt64, state: [UInt8])
    /// The client has acknowledged the answers to all its requests with numbers below `before`.
    case acknowledged(UInt64, before: UInt64)
  }

  /// The limits of a registry.
  package struct Limits: Sendable {
    /// The maximum total number of clients, waiting requests and answers.
    package var maximumNumberCount: Int
    /// The maximum total size of the states in answers, except for the last few answers. Unit:
    /// bytes.
    package var maximumByteCount: Int

    package init(numbers: Int = 65_536, byteCount: Int = 4 << 20) {
      self.maximumNumberCount = numbers
      self.maximumByteCount = byteCount
    }
  }

  private struct Client {
    /// The number of the oldest request to which the client may still expect an answer. The client
    /// never repeats earlier requests.
    var oldestNumber: UInt64 = 0
    /// The value of ``RequestRegistry/lastForgottenNumber`` when the registry first saw this
    /// client. The registry may have known and forgotten the client before.
    let lastForgottenNumber: UInt64
    /// The stored answers, by request number: all answers from `oldestNumber` on, and the last
    /// recorded answer.
    var answersByNumber: [UInt64: RequestReply] = [:]
    /// The number of the last recorded request. The journal keeps the record of this request until
    /// the client has a later record. The next process recognizes the client by this record.
    var lastRecordedNumber: UInt64 = 0
    var waitingCount = 0
    /// The number of the client's last admission. Admissions are numbered consecutively across all
    /// clients.
    var lastAdmission: UInt64 = 0

    /// Returns the numbers of the answers that are no longer required after the client has
    /// acknowledged the answers to all requests before `oldest`.
    func acknowledgedNumbers(before oldest: UInt64) -> [UInt64] {
      if oldest - self.oldestNumber <= UInt64(answersByNumber.count) {
        (self.oldestNumber..<oldest).filter { answersByNumber[$0] != nil }
      } else {
        answersByNumber.keys.filter { $0 < oldest }
      }
    }

    /// The highest number whose request was answered or acknowledged. A request with this number or
    /// a lower number must not be applied again.
    var lastNumber: UInt64 { max(max(oldestNumber, 1) - 1, answersByNumber.keys.max() ?? 0) }
  }

  /// The number of most recent answers that always keep their states, regardless of the total size.
  /// Unit: answers.
  private static let keptStateCount = 8
  /// The maximum number of changes that may wait for the next record of a request. Unit: changes.
  private static let maximumPendingChangeCount = 1_024
  private let limits: Limits
  private var clientsByID: [UInt64: Client] = [:]
  private var replyHandlersByRequest: [RequestKey: (RequestReply) -> Void] = [:]
  /// The highest forgotten request number. A request of an unknown client is applied only if its
  /// number is higher.
  package private(set) var lastForgottenNumber: UInt64
  /// The total number of clients, waiting requests and answers.
  package private(set) var entryCount = 0
  private var admissionCount: UInt64 = 0
  private var lastAnonymousID: UInt64 = 0
  /// The answers that contain a state, in the order in which they were given. `byteCount` is the
  /// total size of their states.
  private var answersWithState = Queue<RequestKey>()
  private var byteCount = 0
  // The changes since the last record.
  private var appliedRequests: [RequestKey] = []
  private var strippedAnswers: Set<RequestKey> = []
  private var acknowledgingClients: Set<UInt64> = []
  private var forgottenClients: [UInt64] = []

  package init(
    restored: [JournalContents.Request] = [], lastForgottenNumber: UInt64 = 0,
    limits: Limits = Limits()
  ) {
    self.lastForgottenNumber = lastForgottenNumber
    self.limits = limits
    for request in restored.sorted(by: { $0.version < $1.version }) {
      admissionCount += 1
      add(request.key.client)
      clientsByID[request.key.client]?.lastAdmission = admissionCount
      storeAnswer(request.key, RequestReply(recorded: request), isRecorded: true)
    }
  }

  // MARK: Admitting and finishing requests

  /// Admits a request, or returns the reason why it is not admitted.
  /// - Parameters:
  ///   - oldest: The number of the client's oldest request to which the client may still expect an
  ///     answer.
  ///   - hasCapacity: Whether there is capacity for another waiting request.
  package mutating func admit(
    _ key: inout RequestKey, oldest: UInt64, hasCapacity: Bool,
    reply: @escaping (RequestReply) -> Void
  ) -> Admission {
    guard key.client != 0 else {
      guard hasCapacity else { return .full }
      lastAnonymousID += 1
      key.id = lastAnonymousID
      replyHandlersByRequest[key] = reply
      return .new
    }
    if let firstUnacknowledged = clientsByID[key.client]?.oldestNumber {
      // A lower number belongs to a late copy of a request, which the client sent on an earlier
      // connection.
      guard key.id >= firstUnacknowledged else { return .forgotten(through: lastForgottenNumber) }
      admissionCount += 1
      clientsByID[key.client]?.lastAdmission = admissionCount
      acknowledge(key.client, before: min(oldest, key.id))
      if let answer = clientsByID[key.client]?.answersByNumber[key.id] { return .answered(answer) }
      if replyHandlersByRequest[key] != nil {
        replyHandlersByRequest[key] = reply
        return .waiting
      }
    }
    guard key.id > clientsByID[key.client]?.lastForgottenNumber ?? lastForgottenNumber else {
      return .forgotten(through: lastForgottenNumber)
    }
    guard hasCapacity, evictClients(except: key.client) else { return .full }
    add(key.client)
    admissionCount += 1
    clientsByID[key.client]?.lastAdmission = admissionCount
    clientsByID[key.client]?.waitingCount += 1
    entryCount += 1
    acknowledge(key.client, before: min(oldest, key.id))
    replyHandlersByRequest[key] = reply
    return .new
  }

  /// Finishes a request that was admitted as new. Returns the closure that sends the answer to the
  /// client.
  /// - Parameter isDeadLetter: Whether the event has become a dead letter. This must be recorded,
  ///   so that the next process does not apply the event.
  package mutating func finish(
    _ key: RequestKey, _ reply: RequestReply, isDeadLetter: Bool = false
  ) -> ((RequestReply) -> Void)? {
    if let oldest = clientsByID[key.client]?.oldestNumber {
      clientsByID[key.client]?.waitingCount -= 1
      entryCount -= 1
      // If the request's number is lower, the client neither waits for the answer nor repeats the
      // request.
      if key.id >= oldest {
        if isDeadLetter || reply.isApplied { appliedRequests.append(key) }
        storeAnswer(key, reply, isRecorded: isDeadLetter || reply.isApplied)
      }
    }
    return replyHandlersByRequest.removeValue(forKey: key)
  }

  /// Removes and returns the closures that answer the waiting requests, which will not be applied.
  package mutating func takeWaiting() -> [(RequestReply) -> Void] {
    defer { replyHandlersByRequest = [:] }
    return Array(replyHandlersByRequest.values)
  }

  // MARK: Storing answers

  private mutating func add(_ client: UInt64) {
    guard clientsByID[client] == nil else { return }
    clientsByID[client] = Client(lastForgottenNumber: lastForgottenNumber)
    entryCount += 1
  }

  private mutating func storeAnswer(_ key: RequestKey, _ reply: RequestReply, isRecorded: Bool) {
    if isRecorded, let last = clientsByID[key.client]?.lastRecordedNumber, key.id > last {
      clientsByID[key.client]?.lastRecordedNumber = key.id
      if let oldest = clientsByID[key.client]?.oldestNumber, last < oldest {
        remove(last, of: key.client)
      }
    }
    if clientsByID[key.client]?.answersByNumber.updateValue(reply, forKey: key.id) == nil {
      entryCount += 1
    }
    guard reply.stateByteCount > 0 else { return }
    byteCount += reply.stateByteCount
    answersWithState.append(key)
    while byteCount > limits.maximumByteCount, answersWithState.count > Self.keptStateCount,
      let first = answersWithState.popFirst()
    { dropState(of: first) }
    // Removes answers that were acknowledged since they were added.
    while let first = answersWithState.first, !hasState(first) { _ = answersWithState.popFirst() }
    if answersWithState.count > 2 * entryCount + Self.keptStateCount { removeAcknowledged() }
  }

  private func hasState(_ key: RequestKey) -> Bool {
    clientsByID[key.client]?.answersByNumber[key.id].map { $0.stateByteCount > 0 } ?? false
  }

  private mutating func removeAcknowledged() {
    for key in answersWithState.removeAll() where hasState(key) { answersWithState.append(key) }
  }

  /// Drops the state in an answer. The remaining answer is small.
  private mutating func dropState(of key: RequestKey) {
    guard let answer = clientsByID[key.client]?.answersByNumber[key.id] else { return }
    byteCount -= answer.stateByteCount
    clientsByID[key.client]?.answersByNumber[key.id] = answer.withoutState
    if answer.isApplied { strippedAnswers.insert(key) }
  }

  private mutating func acknowledge(_ client: UInt64, before oldest: UInt64) {
    guard let before = clientsByID[client]?.oldestNumber, oldest > before else { return }
    for id in clientsByID[client]?.acknowledgedNumbers(before: oldest) ?? [] {
      if clientsByID[client]?.lastRecordedNumber == id {
        dropState(of: RequestKey(client: client, id: id))
      } else {
        remove(id, of: client)
      }
    }
    clientsByID[client]?.oldestNumber = oldest
  }

  private mutating func remove(_ id: UInt64, of client: UInt64) {
    guard let answer = clientsByID[client]?.answersByNumber.removeValue(forKey: id) else { return }
    entryCount -= 1
    byteCount -= answer.stateByteCount
    // The acknowledgement is recorded even if the request was never recorded. That is harmless.
    acknowledgingClients.insert(client)
  }

  // MARK: Forgetting clients

  /// Forgets clients if there are too many numbers. Returns whether there is capacity for
  /// another request.
  private mutating func evictClients(except client: UInt64) -> Bool {
    guard entryCount >= limits.maximumNumberCount else { return true }
    let idleClients = clientsByID.filter { $0.key != client && $0.value.waitingCount == 0 }
      .sorted { $0.value.lastAdmission < $1.value.lastAdmission }
    // Forgets several clients at a time, since each search examines all clients.
    for (number, entry) in idleClients.prefix(max(1, idleClients.count / 16)) {
      evict(number, entry)
    }
    return entryCount < limits.maximumNumberCount
  }

  private mutating func evict(_ number: UInt64, _ client: Client) {
    clientsByID[number] = nil
    entryCount -= 1 + client.answersByNumber.count
    for answer in client.answersByNumber.values { byteCount -= answer.stateByteCount }
    lastForgottenNumber = max(lastForgottenNumber, client.lastNumber)
    forgottenClients.append(number)
  }

  // MARK: Recording changes

  /// Whether a request was applied since the last record, or too many other changes wait for a
  /// record.
  ///
  /// Other changes can wait for the record of the next applied request. Until then, the journal
  /// keeps more records than necessary.
  package var hasUnrecordedChanges: Bool {
    !appliedRequests.isEmpty
      || strippedAnswers.count + acknowledgingClients.count + forgottenClients.count
        > Self.maximumPendingChangeCount
  }

  /// Removes and returns the unrecorded changes, in the order in which they must be recorded.
  package mutating func takeRecords() -> [Record] {
    defer {
      (appliedRequests, strippedAnswers, acknowledgingClients, forgottenClients) = ([], [], [], [])
    }
    return forgottenClients.map { .clientForgotten($0, through: lastForgottenNumber) }
      + appliedRequests.compactMap { record(of: $0) }
      + strippedAnswers.compactMap { record(of: $0) }
      + acknowledgingClients.compactMap { number in
        guard let client = clientsByID[number] else { return nil }
        return .acknowledged(number, before: min(client.oldestNumber, client.lastRecordedNumber))
      }
  }

  /// Returns the record of an applied request; `nil` if the record is no longer required.
  private func record(of key: RequestKey) -> Record? {
    switch clientsByID[key.client]?.answersByNumber[key.id] {
    case .accepted(let version, let state): .answered(key, version: version, state: state)
    case .refused(.thrown(let reason), _, _):
      .answered(key, version: 0, state: JSONValue.string(reason).bytes)
    case .refused, .invalid, .busy, .unavailable, .forgotten, .done, .synchronized, .explained,
      .gated, nil:
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

  /// The size of the state in the reply; 0 if there is none. Unit: bytes.
  fileprivate var stateByteCount: Int {
    switch self {
    case .accepted(_, let state), .refused(_, _, let state): state.count
    case .busy, .invalid, .unavailable, .done, .synchronized, .explained, .gated, .forgotten: 0
    }
  }

  /// A copy of the reply without its state.
  var withoutState: RequestReply {
    switch self {
    case .accepted(let version, _): .accepted(version: version, state: [])
    case .refused(let refusal, let version, _): .refused(refusal, version: version, state: [])
    case .busy, .invalid, .unavailable, .done, .synchronized, .explained, .gated, .forgotten: self
    }
  }
}
