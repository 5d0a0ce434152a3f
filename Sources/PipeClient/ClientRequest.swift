import PipeMachines
import PipeTransport
import PipeWire

/// A request of a client, from its first frame to its answer.
final class ClientRequest {
  enum Content: Sendable {
    case event([UInt8])
    case deadLetter(UInt64, drops: Bool)
    /// To a coordinator; the count says how long it may wait. Unit: milliseconds.
    case synchronize([UInt8], SynchronizeFlag, count: UInt32)
    /// What would be said to an event, or to all where there is none.
    case explain([UInt8])
  }

  /// What a node answers.
  enum Answer: Sendable {
    case outcome(RequestOutcome)
    case synchronized(TransactionReply)
    case explained(JSONValue)
  }

  /// Its number at the node, from when it is in flight; 0 before that.
  private(set) var id: UInt64 = 0
  let content: Content
  let node: NodeInformation
  let timeout: Duration
  let completion: ClientSockets.Reply
  var timer: TimerQueue.ID?
  var repeatTimer: TimerQueue.ID?
  /// How long it waits for its answer before it is sent again.
  var pause: Duration = .milliseconds(250)
  /// How often the socket has taken it.
  private(set) var copies = 0
  /// How many copies the node has answered without looking at them, and with which words.
  private(set) var unavailable = 0
  private(set) var reason = ""
  /// Whether it is sent as soon as the connection is complete.
  var isSubmitted = false
  /// Whether its caller was told that it was not sent.
  var isGivenUp = false
  /// Whether it waits until the node may run.
  var isPostponed = false
  /// Whether it was sent to a process that then went away.
  var isRepeated = false

  init(
    content: Content, node: NodeInformation, timeout: Duration,
    completion: @escaping ClientSockets.Reply
  ) {
    self.content = content
    self.node = node
    self.timeout = timeout
    self.completion = completion
  }

  /// Whether the socket has taken it at least once.
  var isSent: Bool { copies > 0 }

  /// Whether no process can have applied it, nor will: each copy of it was answered without being looked at.
  var isUnapplied: Bool { copies == unavailable }

  /// It is in flight under a number; 0 where it is not any more.
  func begin(as id: UInt64) {
    self.id = id
    (copies, unavailable) = (0, 0)
    isRepeated = false
  }

  func wasSent() { copies += 1 }

  func wasPostponed(because reason: String) {
    unavailable += 1
    self.reason = reason
  }

  /// Whether it is sent again where its answer does not come: it is then taken once all the same.
  var isRepeatable: Bool {
    guard node.durability != .volatile else { return false }
    return switch content {
    case .event: true
    case .deadLetter(_, let drops): drops
    // What a broadcast has done is not recorded.
    case .synchronize(_, let flag, _): flag != .broadcast
    // A node that goes away is a part of the answer.
    case .explain: false
    }
  }

  /// Whether it asks, and would change nothing.
  var isQuestion: Bool { if case .explain = content { true } else { false } }

  /// The frame; the same request has the same number however often it is sent.
  func frame(client: UInt64, oldest: UInt64) -> (FrameHeader, [UInt8]) {
    switch content {
    case .event(let bytes):
      let header = FrameHeader(
        .request, count: UInt32(clamping: id - min(oldest, id)), sequence: id, number: client)
      return (header, bytes)
    case .deadLetter(let letter, let drops):
      return (FrameHeader(.deadLetter, count: drops ? 1 : 0, sequence: id, number: letter), [])
    case .synchronize(let body, let flag, let count):
      let header = FrameHeader(
        .synchronize, flags: flag.rawValue, count: count, sequence: id, number: client)
      return (header, body)
    case .explain(let event): return (FrameHeader(.explain, sequence: id), event)
    }
  }
}

/// The numbers of a client's requests to one node: the next one, those in flight, and how many may be.
package struct RequestWindow: Sendable {
  /// What the answers to the requests in flight may take together, but for the first few. Unit: bytes.
  private static let byteLimit = 16 << 20
  private static let alwaysInFlight = 4

  private let limit: Int
  private var next: UInt64
  private var inFlight: Set<UInt64> = []
  /// No number before this one is in flight.
  private var first: UInt64
  /// The size of an answer, as far as the last ones tell. Unit: bytes.
  private var answerByteCount = 0

  /// - Parameters:
  ///   - first: The number of the first request; see ``RequestKey/firstID(at:)``.
  ///   - limit: Requests in flight, and the distance between the numbers of the oldest and of the newest one.
  package init(first: UInt64, limit: Int = 1_024) {
    next = first
    self.first = first
    self.limit = limit
  }

  /// The number of a new request; `nil` where as many are in flight as may be, or no number is left.
  package mutating func open() -> UInt64? {
    let fitting = Self.byteLimit / max(1, answerByteCount)
    guard inFlight.count < max(Self.alwaysInFlight, min(limit, fitting)),
      next - oldest < UInt64(limit), next < RequestKey.idLimit
    else { return nil }
    defer { next += 1 }
    inFlight.insert(next)
    return next
  }

  /// The client waits for the answer to a request no longer, and never sends it again.
  package mutating func close(_ id: UInt64) {
    inFlight.remove(id)
    if inFlight.isEmpty {
      first = next
    } else if next - first > 2 * UInt64(limit) {
      first = inFlight.min() ?? next
    } else {
      while !inFlight.contains(first) { first += 1 }
    }
  }

  /// The oldest number in flight, or the next one where none is.
  package var oldest: UInt64 { first }

  /// Whether there are numbers beyond this one, up to which a node has forgotten requests.
  package mutating func skip(through last: UInt64) -> Bool {
    guard last < RequestKey.idLimit - 1 else { return false }
    next = max(next, last + 1)
    if inFlight.isEmpty { first = next }
    return true
  }

  /// An answer has come. The largest of the last ones counts.
  package mutating func received(byteCount: Int) {
    answerByteCount = max(byteCount, answerByteCount - answerByteCount / 8)
  }
}
