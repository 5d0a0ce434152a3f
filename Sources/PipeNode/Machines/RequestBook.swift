import PipeJournal
import PipeSupport
import PipeWire

/// The requests of clients: those that wait, and the answers that were given, so that one that comes
/// again is answered and neither applied again nor applied after its client was told that it was not.
struct RequestBook {
  /// What to do with a request that has come.
  enum Admission {
    /// It is new: apply it.
    case new
    /// It waits already; its answer goes to where it came from last.
    case waiting
    /// It was answered.
    case answered(RequestReply)
  }

  /// What a client was told.
  private struct Answer {
    var reply: RequestReply
    var byteCount: Int
    /// Whether the journal has it: one that was applied.
    var isRecorded: Bool

    init(_ reply: RequestReply) {
      self.reply = reply
      isRecorded = false
      switch reply {
      case .moved(_, let state): (byteCount, isRecorded) = (state.count, true)
      case .refused(_, _, let state): byteCount = state.count
      case .busy(let text), .invalid(let text), .unavailable(let text): byteCount = text.utf8.count
      case .done, .synchronized, .explained: byteCount = 0
      }
    }
  }

  /// Answers that are kept for clients that do not say which ones they have. Unit: answers.
  private static let kept = 4_096
  /// What their states may take together, but for the last few. Unit: bytes.
  private static let keptBytes = 4 << 20
  private static let keptAtLeast = 8
  private var replies: [RequestKey: Reply] = [:]
  private var answers: [UInt64: [UInt64: Answer]] = [:]
  private var byteCount = 0
  /// In the order in which they were given.
  private var order = Queue<RequestKey>()
  private var lastUnnamed: UInt64 = 0
  // Since the last record.
  private var applied: [(key: RequestKey, version: UInt64, state: [UInt8])] = []
  private var forgotten: [RequestKey] = []

  init(restored: [JournalContents.Request] = []) {
    for request in restored {
      keep(request.key, Answer(.moved(version: request.version, state: request.state)))
    }
  }

  /// Takes a request in.
  /// - Parameter oldest: The client waits for no answer to a request before this one.
  mutating func admit(
    _ key: inout RequestKey, oldest: UInt64, reply: @escaping Reply
  ) -> Admission {
    guard key.client != 0 else {
      lastUnnamed += 1
      key.id = lastUnnamed
      replies[key] = reply
      return .new
    }
    forget(key.client, before: oldest)
    if let answer = answers[key.client]?[key.id] { return .answered(answer.reply) }
    return replies.updateValue(reply, forKey: key) == nil ? .new : .waiting
  }

  /// The request is done: returns whom to answer.
  mutating func finish(_ key: RequestKey, _ reply: RequestReply) -> Reply? {
    if key.client != 0 {
      keep(key, Answer(reply))
      if case .moved(let version, let state) = reply {
        applied.append((key, version, state))
      }
    }
    return replies.removeValue(forKey: key)
  }

  /// Those that still wait; they will not be applied.
  mutating func takeWaiting() -> [Reply] {
    defer { replies = [:] }
    return Array(replies.values)
  }

  private mutating func keep(_ key: RequestKey, _ answer: Answer) {
    answers[key.client, default: [:]][key.id] = answer
    byteCount += answer.byteCount
    order.append(key)
    while order.count > Self.kept
      || byteCount > Self.keptBytes && order.count > Self.keptAtLeast,
      let oldest = order.popFirst()
    { forget(oldest) }
  }

  private mutating func forget(_ client: UInt64, before oldest: UInt64) {
    guard let known = answers[client] else { return }
    for id in known.keys where id < oldest { forget(RequestKey(client: client, id: id)) }
  }

  private mutating func forget(_ key: RequestKey) {
    guard let answer = answers[key.client]?.removeValue(forKey: key.id) else { return }
    byteCount -= answer.byteCount
    if answers[key.client]?.isEmpty == true { answers[key.client] = nil }
    if answer.isRecorded { forgotten.append(key) }
  }

  // MARK: Records

  var hasUnrecorded: Bool { !applied.isEmpty || !forgotten.isEmpty }

  func record(into journal: Journal) throws {
    for (key, version, state) in applied {
      try journal.answered(key, version: version, state: state)
    }
    for key in forgotten { try journal.answerForgotten(key) }
  }

  mutating func recorded() {
    applied = []
    forgotten = []
  }
}
