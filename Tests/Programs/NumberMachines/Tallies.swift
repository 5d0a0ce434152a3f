/// What a node has counted of the numbers that came along each route.
package struct Tallies: Codable, Hashable, Sendable {
  /// The numbers of one route.
  package struct Tally: Codable, Hashable, Sendable {
    package var count = 0
    package var last = 0
    /// Numbers that were left out before one that came: they are lost, or come late.
    package var skipped = 0
    /// Numbers that were not above the one before: they are repeated, or out of order.
    package var late = 0
    package var firstError: String?

    /// None yet.
    package static let none = Tally()
  }

  package private(set) var routes: [String: Tally] = [:]
  /// The numbers of all routes together.
  package private(set) var total = 0

  package init() {}

  /// With one number more.
  /// - Parameter refused: Multiples of this number do not count, as they are refused.
  package func adding(_ n: Int, of route: String, refused: Int? = nil) -> Tallies {
    var tallies = self
    var tally = routes[route] ?? Tally()
    var expected = tally.last + 1
    if let refused, expected.isMultiple(of: refused) { expected += 1 }
    if n != expected, tally.firstError == nil {
      tally.firstError = "number \(n) came where \(expected) was expected"
    }
    if n > expected { tally.skipped += n - expected }
    if n < expected { tally.late += 1 }
    tally.last = max(tally.last, n)
    tally.count += 1
    tallies.routes[route] = tally
    tallies.total += 1
    return tallies
  }
}
