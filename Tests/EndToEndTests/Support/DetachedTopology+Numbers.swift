import PipeRuntime
import TestNodes

/// What tests of numbers do, which go from a node `source` to a node `sink`.
extension DetachedTopology {
  func sendNumbers(_ count: Int) async throws {
    let client = try client()
    defer { client.close() }
    try await client.send("source", Source.Event.go(count: count))
  }

  /// Waits until so many more numbers have come, or all that were sent.
  func untilNumbersArrive(_ count: UInt64 = 300) async throws {
    let version = try await directory()[node: "sink"]?.status?.version ?? 0
    try await self.await("numbers arrive") {
      let out = $0[node: "source"]?.status?.outs.first
      return $0[node: "sink"]?.status.map { $0.version > version + count } == true
        || out.map { $0.events > 0 && $0.events == $0.applied } == true
    }
  }

  /// Waits until so many numbers have come, once and in order, and `left` and `right` have met at each, and at the
  /// beginning.
  @discardableResult
  func untilAllMet(_ count: Int) async throws -> TopologyDirectory {
    let last = try JSONValue(encoding: Sink.State.counting(last: count, count: count, wrong: 0))
    let met = try JSONValue(encoding: Party.State.willing(met: count + 1, steps: 0))
    return try await self.await("\(count) numbers have come") {
      $0[node: "sink"]?.status?.state == last && $0[node: "left"]?.status?.state == met
        && $0[node: "right"]?.status?.state == met
    }
  }
}
