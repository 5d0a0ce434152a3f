import PipeWire

/// The answer to a health check of a load balancer or a service manager.
struct HealthProbe {
  /// The path of requests that ask whether the orchestrator of the topology answers.
  static let livenessPath = "/healthz"
  /// The path of requests that ask whether all nodes that should run are running.
  static let readinessPath = "/readyz"

  private let snapshot: TopologySnapshot

  init(_ snapshot: TopologySnapshot) { self.snapshot = snapshot }

  /// Returns status 200 if the topology is healthy, and 503 with a reason if it is not.
  func answer(isReadiness: Bool) -> WebResponse {
    let name = snapshot.topology
    switch snapshot.directory {
    case .failure(let error): return WebResponse(503, "\(name): \(error.reason)")
    case .success(let directory):
      guard isReadiness, !directory.isRunning else {
        return WebResponse(200, "\(name): \(directory.isRunning ? "running" : directory.phase)")
      }
      let nodes = directory.nodes.filter { !$0.isRunning && $0.phase != "completed" }
        .map { "\($0.name): \($0.phase)" }
      return WebResponse(
        503, (["\(name): \(directory.phase)"] + nodes).joined(separator: "\n"))
    }
  }
}
