import PipeWire

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
