import PipeRuntime
import PipeRuntimeTestKit
import Testing

extension TopologyHarness {
  /// Repeats a round until a failpoint has acted.
  ///
  /// The number of rounds that a process handles together depends on the machine, and so does the
  /// number of rounds until a hit.
  /// - Parameters:
  ///   - count: The least number of rounds.
  ///   - place: The node and its failpoint: `pair:step.after`.
  /// - Returns: The number of rounds.
  @discardableResult
  func `repeat`(
    atLeast count: Int = 1, untilFailpoint place: String, _ round: () async throws -> Void
  ) async throws -> Int {
    let parts = place.split(separator: ":").map(String.init)
    var done = 0
    while done < count
      || !logs(parts[0]).contains(where: { $0.contains("failpoint \(parts[1]): ") })
    {
      try #require(done < 10_000, "'\(place)' has not been reached")
      try await round()
      done += 1
    }
    return done
  }
}
