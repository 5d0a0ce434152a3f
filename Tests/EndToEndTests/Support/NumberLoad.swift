import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import Testing

/// A load that lasts until the test ends it: the numbers that a node `source` sends.
///
/// A load with a fixed count might end before the test observes the nodes at work.
enum NumberLoad {
  /// The number at which the load ends by itself. The nodes need minutes to reach this number.
  ///
  /// Without such a limit, the waits of a failed test would not detect a stall.
  static let limit = 1_000_000
}

extension TopologyClient {
  /// Makes the source send numbers until ``endNumbers()``.
  func startNumbers() async throws {
    try await send("source", Source.Event.go(count: NumberLoad.limit))
  }

  /// Stops the sending that ``startNumbers()`` began.
  /// - Returns: The last number that the source has sent.
  func endNumbers() async throws -> Int {
    let last: Int? = try await poll(within: .seconds(20)) {
      do {
        switch try await send("source", Source.Event.halt) {
        case .accepted(_, let state), .refused(_, let state):
          return state["idle"]?["sent"]?.integer.map { Int($0) }
        case .done: return nil
        }
      } catch TopologyClientError.busy {
        // The pipe of the source is full. The source accepts the event as soon as the pipe has
        // capacity.
        return nil
      }
    }
    return try #require(last, "the source does not halt")
  }
}
