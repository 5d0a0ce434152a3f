import PipeRuntime

/// What tests of numbers wait for, which go from a node `source` to a node `sink`.
extension DetachedTopology {
  /// Waits until so many more numbers have come, or all that were sent.
  func untilNumbersArrive(_ count: UInt64 = 300) async throws {
    let version = try await directory()[node: "sink"]?.status?.version ?? 0
    try await self.await("numbers arrive") {
      let out = $0[node: "source"]?.status?.outs.first
      return $0[node: "sink"]?.status.map { $0.version > version + count } == true
        || out.map { $0.events > 0 && $0.events == $0.applied } == true
    }
  }
}
