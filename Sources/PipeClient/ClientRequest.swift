import PipeMachines
import PipeTransport
import PipeWire

/// A request of a client, from its first frame to its answer.
final class ClientRequest {
  enum Content: Sendable {
    case event([UInt8], wantsState: Bool)
    case deadLetter(UInt64, drops: Bool)
    /// A request to a coordinator. `count`: how long the request may wait. Unit: milliseconds.
    case synchronize([UInt8], SynchronizeFlag, count: UInt32)
    /// A question about how the node would respond to an event. If the event is empty, the question
    /// is about all events.
    case explain([UInt8], key: String?)
    /// A request to a gated node: a ``GateRequest`` as JSON.
    case gate([UInt8])
  }

  /// An answer of a node.
  enum Answer: Sendable {
    case outcome(RequestOutcome)
    case synchronized(TransactionReply)
    case explained(JSONValue)
    case gated(JSONValue)
  }

  /// The number of the request at the node while the request is in flight; otherwise 0.
  private(set) var id: UInt64 = 0
  let content: Content
  let node: NodeInformation
  let timeout: Duration
  let completion: ClientSockets.Reply
  var timer: TimerQueue.ID?
  var repeatTimer: TimerQueue.ID?
  /// How long to wait for the answer before the request is sent again.
  var repeatInterval: Duration = .milliseconds(250)
  /// How many times the socket has accepted the request.
  private(set) var sentCopyCount = 0
  /// The number of copies that the node has rejected without processing them.
  private(set) var rejectedCopyCount = 0
  /// The reason of the last rejection.
  private(set) var lastRejectionReason = ""
  /// Whether the request must be sent as soon as the connection is complete.
  var isSubmitted = false
  /// Whether the client has given up the request before sending it. The request is then never sent.
  var isGivenUp = false
  /// Whether the request waits until the node is running again.
  var isPostponed = false
  /// Whether the request may have to be sent again, because its answer is late or the connection
  /// was lost.
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
  var isSent: Bool { sentCopyCount > 0 }

  /// Whether the request was not applied and will not be applied, because the node has rejected
  /// each copy without processing it.
  var isUnapplied: Bool { sentCopyCount == rejectedCopyCount }

  /// Puts the request in flight with this number; the number 0 means that the request is no longer
  /// in flight.
  func begin(as id: UInt64) {
    self.id = id
    (sentCopyCount, rejectedCopyCount) = (0, 0)
    isRepeated = false
  }

  func recordSend() { sentCopyCount += 1 }

  func recordPostponement(because reason: String) {
    rejectedCopyCount += 1
    lastRejectionReason = reason
  }

  /// Whether the request is sent again if no answer arrives. The node then still applies the
  /// request only once.
  var isRepeatable: Bool {
    guard node.durability != .volatile else { return false }
    return switch content {
    case .event: true
    case .deadLetter(_, let drops): drops
    // `false` for a broadcast: the coordinator does not record the results of a broadcast, so a
    // repeated broadcast would deliver the event again.
    case .synchronize(_, let flag, _): flag != .broadcast
    // A question is not repeated. If the node fails before it answers, that failure already answers
    // the question: it is the reason why the node accepts no event.
    case .explain: false
    // A step must not be taken twice.
    case .gate: false
    }
  }

  /// Whether the request is a question, which changes nothing in the node.
  var isQuestion: Bool { if case .explain = content { true } else { false } }

  /// Returns the request's frame. A request that is sent again keeps its number.
  func frame(client: UInt64, oldest: UInt64) -> (FrameHeader, [UInt8]) {
    switch content {
    case .event(let bytes, let wantsState):
      let header = FrameHeader(
        .request, flags: wantsState ? 0 : RequestKey.withoutStateFlag,
        count: UInt32(clamping: id - min(oldest, id)), sequence: id, incarnationOrSession: client)
      return (header, bytes)
    case .deadLetter(let deadLetter, let drops):
      return (
        FrameHeader(
          .deadLetter, count: drops ? 1 : 0, sequence: id, incarnationOrSession: deadLetter), []
      )
    case .synchronize(let body, let flag, let count):
      let header = FrameHeader(
        .synchronize, flags: flag.rawValue, count: count, sequence: id, incarnationOrSession: client
      )
      return (header, body)
    case .explain(let event, let key):
      let key = Array((key ?? "").utf8)
      return (FrameHeader(.explain, count: UInt32(key.count), sequence: id), key + event)
    case .gate(let request): return (FrameHeader(.gate, sequence: id), request)
    }
  }
}

/// The numbers of a client's requests to one node: the next number, and the numbers in flight. The
/// number of requests in flight is limited.
package struct RequestWindow: Sendable {
  /// The maximum total size of the answers to the requests in flight. A few requests are sent
  /// regardless of this limit. Unit: bytes.
  private static let byteLimit = 16 << 20
  private static let minimumInFlight = 4

  private let maximumInFlight: Int
  private var nextNumber: UInt64
  private var inFlight: Set<UInt64> = []
  /// All numbers in flight are equal to or higher than this number.
  private var firstNumber: UInt64
  /// The estimated size of an answer, based on recent answers. Unit: bytes.
  private var answerByteCount = 0

  /// - Parameters:
  ///   - first: The number of the first request; see ``RequestKey/firstID(at:)``.
  ///   - limit: The maximum number of requests in flight, and the maximum distance between the
  ///     lowest and the highest number in flight.
  package init(first: UInt64, limit: Int = 1_024) {
    nextNumber = first
    self.firstNumber = first
    self.maximumInFlight = limit
  }

  /// Returns the number for a new request; `nil` if too many requests are in flight, or no number
  /// is left.
  package mutating func open() -> UInt64? {
    let fitting = Self.byteLimit / max(1, answerByteCount)
    guard inFlight.count < max(Self.minimumInFlight, min(maximumInFlight, fitting)),
      nextNumber - oldestNumber < UInt64(maximumInFlight), nextNumber < RequestKey.idLimit
    else { return nil }
    defer { nextNumber += 1 }
    inFlight.insert(nextNumber)
    return nextNumber
  }

  /// Ends a request: the client no longer waits for the request's answer, and never sends the
  /// request again.
  package mutating func close(_ id: UInt64) {
    inFlight.remove(id)
    if inFlight.isEmpty {
      firstNumber = nextNumber
    } else if nextNumber - firstNumber > 2 * UInt64(maximumInFlight) {
      firstNumber = inFlight.min() ?? nextNumber
    } else {
      while !inFlight.contains(firstNumber) { firstNumber += 1 }
    }
  }

  /// The oldest number in flight; if no request is in flight, the next number.
  package var oldestNumber: UInt64 { firstNumber }

  /// Skips the numbers up to and including `last`, because a node has forgotten the requests with
  /// these numbers. Returns `false` if no number is left.
  package mutating func skip(through last: UInt64) -> Bool {
    guard last < RequestKey.idLimit - 1 else { return false }
    nextNumber = max(nextNumber, last + 1)
    if inFlight.isEmpty { firstNumber = nextNumber }
    return true
  }

  /// Updates the estimated size of an answer. A large answer raises the estimate immediately;
  /// smaller answers lower the estimate gradually.
  package mutating func received(byteCount: Int) {
    answerByteCount = max(byteCount, answerByteCount - answerByteCount / 8)
  }
}
