import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import Testing

/// Numbers that flow from a node `source` to a node `sink`.
///
/// `orchestrator send` sends the events, because the nodes may be on a network that only the
/// topology's hosts reach.
extension DetachedTopology {
  /// Makes the source send `count` more numbers.
  func sendNumbers(_ count: Int) async throws {
    try await run("send", "source", #"{"go":{"count":\#(count)}}"#)
  }

  /// Makes the source send numbers until ``endNumbers()``.
  func startNumbers() async throws {
    try await sendNumbers(NumberLoad.limit)
  }

  /// Stops the sending that ``startNumbers()`` began.
  /// - Returns: The last number that the source has sent.
  func endNumbers() async throws -> Int {
    let last: Int? = try await poll(within: .seconds(20), of: tool.directory) {
      // A source with a full pipe refuses the event.
      let halt = try tool.start(CommandLineTool.withLongTimeout(["send", "source", #""halt""#]))
      _ = try await tool.result(of: halt, within: .seconds(60))
      let state = try await directory()[node: "source"]?.status?.state
      return state?["idle"]?["sent"]?.integer.map { Int($0) }
    }
    return try #require(last, "the source does not halt")
  }

  /// Waits until the sink has received more than `count` further numbers.
  func waitUntilNumbersArrive(_ count: UInt64 = 300) async throws {
    let version = try await directory()[node: "sink"]?.status?.version ?? 0
    try await self.await("numbers arrive") {
      $0[node: "sink"]?.status.map { $0.version > version + count } == true
    }
  }

  /// Waits until the sink has received the numbers 1 to `count`, each once and in order.
  @discardableResult
  func waitUntilAllArrived(_ count: Int) async throws -> TopologyDirectory {
    let last = try JSONValue(
      encoding: Sink.State.counting(last: count, count: count, wrong: 0))
    return try await self.await("\(count) numbers have arrived") {
      $0[node: "sink"]?.status?.state == last
    }
  }

  /// Waits until the sink has received the numbers 1 to `count`, each once and in order.
  ///
  /// Also waits until `left` and `right` have taken `count + 1` synchronized events: one for each
  /// number, and one for the start.
  @discardableResult
  func waitUntilAllMet(_ count: Int) async throws -> TopologyDirectory {
    let last = try JSONValue(
      encoding: Sink.State.counting(last: count, count: count, wrong: 0))
    let met = try JSONValue(encoding: Party.State.willing(met: count + 1, steps: 0))
    return try await self.await("\(count) numbers have arrived") {
      $0[node: "sink"]?.status?.state == last && $0[node: "left"]?.status?.state == met
        && $0[node: "right"]?.status?.state == met
    }
  }
}
