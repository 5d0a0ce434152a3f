import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import Testing

/// Load that runs until the test ends it: numbers from a node `source`.
///
/// A test that sends a fixed count and then looks for a node at work assumes that it looks before all have arrived.
enum NumberLoad {
  /// The numbers after which the load ends in any case, so that the waits of a test that has failed see a stall. The
  /// nodes take minutes for them.
  static let limit = 1_000_000
}

extension TopologyClient {
  /// Has the source send numbers until ``endNumbers()``.
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
        // Its pipe is full: the source accepts the event as soon as there is capacity.
        return nil
      }
    }
    return try #require(last, "the source does not halt")
  }
}
