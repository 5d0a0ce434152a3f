import PipeMachines
import PipeWire

extension TopologyClient {
  /// Sends a request to a gated node, or to the coordinator of a composite of a gated topology.
  /// - Throws: ``TopologyClientError``: `invalidEvent` if the node is not gated; `unknownOutcome`
  ///   if its process ends before it answers.
  package func gate(
    _ node: String, _ request: GateRequest, timeout: Duration
  ) async throws -> GateReport {
    let content = ClientRequest.Content.gate(try JSONRecord.encode(request))
    guard case .gated(let json) = try await exchange(node, content, timeout: timeout),
      let report = try? json.decode(GateReport.self)
    else { throw TopologyClientError.unexpectedAnswer }
    return report
  }
}
