import PipeRuntime
import PipeRuntimeTestKit
import Testing

extension TopologyHarness {
  /// Repeats a round until a failpoint has acted.
  ///
  /// A process may handle several rounds together, and their number depends on the host. So the
  /// number of rounds until the failpoint acts is not known in advance.
  /// - Parameters:
  ///   - count: The minimum number of rounds.
  ///   - place: The node and its failpoint, such as `pair:step.after`.
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
