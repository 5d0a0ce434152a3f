/// An event that a machine refused and its pipe recorded.
public struct DeadLetter: Codable, Hashable, Sendable {
  /// The pipe it came by.
  public var pipe: String
  /// Its number in that pipe.
  public var sequence: UInt64
  /// The event as JSON, or as text where it did not decode.
  public var event: JSONValue
  /// Why it was not applied.
  public var reason: String
}

/// The most recent dead letters of a node that keeps no journal, and the count of all.
struct DeadLetters {
  private static let kept = 100
  private(set) var count: UInt64 = 0
  private(set) var recent: [DeadLetter] = []

  mutating func add(_ letter: DeadLetter) {
    count += 1
    if recent.count == Self.kept { recent.removeFirst() }
    recent.append(letter)
  }
}
