/// How long something took, each time it was measured: how often at most 1 µs, 4 µs, 16 µs, and so on.
public struct DurationCounts: Codable, Hashable, Sendable {
  /// How many took at most the bound in the same place, and more than the one before; the last, more than all.
  public private(set) var counts: [UInt64]
  /// All together. Unit: nanoseconds.
  public private(set) var total: UInt64 = 0

  /// Nothing was measured yet.
  public init() { counts = Array(repeating: 0, count: Self.boundCount + 1) }

  /// How many bounds there are, each four times the one before.
  package static let boundCount = 12
  /// The least bound. Unit: nanoseconds.
  private static let least: UInt64 = 1_000

  /// The bounds, in growing order. Unit: nanoseconds.
  package static var bounds: [UInt64] { (0..<boundCount).map { least << (2 * UInt64($0)) } }

  /// Counts one.
  package mutating func add(nanoseconds: Int64) {
    let time = UInt64(max(0, nanoseconds))
    var place = 0
    while place < Self.boundCount, time > Self.least << (2 * UInt64(place)) { place += 1 }
    counts[place] &+= 1
    total &+= time
  }

  /// How many were measured.
  public var count: UInt64 { counts.reduce(0, &+) }

  /// Whether it has a count for each bound, and one more: another program may have written it.
  package var isComplete: Bool { counts.count == Self.boundCount + 1 }
}
