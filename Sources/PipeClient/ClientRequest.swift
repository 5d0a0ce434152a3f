import PipeMachines
import PipeTransport
import PipeWire

/// A request of a client, from its first frame to its answer.
final class ClientRequest {
  enum Content: Sendable {
    case event([UInt8], wantsState: Bool)
    case deadLetter(UInt64, drops: Bool)
    /// A request to a coordinator. The count limits how long the request may wait. Unit: milliseconds.
    case synchronize([UInt8], SynchronizeFlag, count: UInt32)
    /// A question about the response to an event, or to all events if it names none.
    case explain([UInt8], key: String?)
  }

  /// An answer of a node.
  enum Answer: Sendable {
    case outcome(RequestOutcome)
    case synchronized(TransactionReply)
    case explained(JSONValue)
  }

  /// The number of the request at the node while it is in flight; 0 before that.
  private(set) var id: UInt64 = 0
  let content: Content
  let node: NodeInformation
  let timeout: Duration
  let completion: ClientSockets.Reply
  var timer: TimerQueue.ID?
  var repeatTimer: TimerQueue.ID?
  /// How long the request waits for its answer before it is sent again.
  var pause: Duration = .milliseconds(250)
  /// How often the socket has accepted the request.
  private(set) var copies = 0
  /// The number of copies that the node has rejected without processing them, and its last reason.
  private(set) var unavailable = 0
  private(set) var reason = ""
  /// Whether the request is sent as soon as the connection is complete.
  var isSubmitted = false
  /// Whether the caller was notified that the request was not sent.
  var isGivenUp = false
  /// Whether the request waits until the node can run.
  var isPostponed = false
  /// Whether the request is sent again: its answer is late, or the connection was lost.
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

  /// Whether the socket has accepted the request at least once.
  var isSent: Bool { copies > 0 }

  /// Whether no process has applied the request, or will: the node has rejected each copy without
  /// processing it.
  var isUnapplied: Bool { copies == unavailable }

  /// Puts the request in flight under a number, or takes it out of flight if the number is 0.
  func begin(as id: UInt64) {
    self.id = id
    (copies, unavailable) = (0, 0)
    isRepeated = false
  }

  func recordSend() { copies += 1 }

  func recordPostponement(because reason: String) {
    unavailable += 1
    self.reason = reason
  }

  /// Whether the request is sent again if its answer does not come. It is applied only once nevertheless.
  var isRepeatable: Bool {
    guard node.durability != .volatile else { return false }
    return switch content {
    case .event: true
    case .deadLetter(_, let drops): drops
    // The results of a broadcast are not recorded.
    case .synchronize(_, let flag, _): flag != .broadcast
    // The loss of a node is part of the answer.
    case .explain: false
    }
  }

  /// Whether the request only asks, and changes nothing.
  var isQuestion: Bool { if case .explain = content { true } else { false } }

  /// Returns the request's frame. A request keeps its number however often it is sent.
  func frame(client: UInt64, oldest: UInt64) -> (FrameHeader, [UInt8]) {
    switch content {
    case .event(let bytes, let wantsState):
      let header = FrameHeader(
        .request, flags: wantsState ? 0 : RequestKey.withoutStateFlag,
        count: UInt32(clamping: id - min(oldest, id)), sequence: id, number: client)
      return (header, bytes)
    case .deadLetter(let deadLetter, let drops):
      return (FrameHeader(.deadLetter, count: drops ? 1 : 0, sequence: id, number: deadLetter), [])
    case .synchronize(let body, let flag, let count):
      let header = FrameHeader(
        .synchronize, flags: flag.rawValue, count: count, sequence: id, number: client)
      return (header, body)
    case .explain(let event, let key):
      let key = Array((key ?? "").utf8)
      return (FrameHeader(.explain, count: UInt32(key.count), sequence: id), key + event)
    }
  }
}

/// The numbers of a client's requests to one node: the next number, the numbers in flight, and
/// their limit.
package struct RequestWindow: Sendable {
  /// The maximum total size of the answers to the requests in flight, except for the first few.
  /// Unit: bytes.
  private static let byteLimit = 16 << 20
  private static let minimumInFlight = 4

  private let limit: Int
  private var next: UInt64
  private var inFlight: Set<UInt64> = []
  /// No number before this one is in flight.
  private var first: UInt64
  /// The estimated size of an answer, by the latest ones. Unit: bytes.
  private var answerByteCount = 0

  /// - Parameters:
  ///   - first: The number of the first request; see ``RequestKey/firstID(at:)``.
  ///   - limit: The maximum number of requests in flight, and the maximum distance between the
  ///     numbers of the oldest and the newest one.
  package init(first: UInt64, limit: Int = 1_024) {
    next = first
    self.first = first
    self.limit = limit
  }

  /// Returns the number of a new request; `nil` if too many requests are in flight, or no number is left.
  package mutating func open() -> UInt64? {
    let fitting = Self.byteLimit / max(1, answerByteCount)
    guard inFlight.count < max(Self.minimumInFlight, min(limit, fitting)),
      next - oldest < UInt64(limit), next < RequestKey.idLimit
    else { return nil }
    defer { next += 1 }
    inFlight.insert(next)
    return next
  }

  /// Ends a request: the client stops waiting for its answer, and never sends it again.
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

  /// The oldest number in flight, or the next number if there is none in flight.
  package var oldest: UInt64 { first }

  /// Skips the numbers through `last`, whose requests a node has forgotten. Returns `false` if no
  /// number is left.
  package mutating func skip(through last: UInt64) -> Bool {
    guard last < RequestKey.idLimit - 1 else { return false }
    next = max(next, last + 1)
    if inFlight.isEmpty { first = next }
    return true
  }

  /// Records the size of an answer. The largest of the latest ones counts.
  package mutating func received(byteCount: Int) {
    answerByteCount = max(byteCount, answerByteCount - answerByteCount / 8)
  }
}
