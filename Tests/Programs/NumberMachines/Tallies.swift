/// A node's counts of the numbers from each route.
package struct Tallies: Codable, Hashable, Sendable {
  /// The counts for one route.
  package struct Tally: Codable, Hashable, Sendable {
    package var count = 0
    package var last = 0
    /// The count of numbers that were missing when a later number arrived. They are lost, or arrive
    /// late.
    package var skipped = 0
    /// The count of numbers that were not greater than the preceding number. They are repeated, or
    /// out of order.
    package var late = 0
    package var firstError: String?

    /// Empty counts.
    package static let none = Tally()
  }

  package private(set) var routes: [String: Tally] = [:]
  /// The count of numbers from all routes.
  package private(set) var total = 0

  package init() {}

  /// Returns the counts with one more number.
  /// - Parameter refused: Multiples of this number were refused on the route, so they are not
  ///   counted as missing.
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
