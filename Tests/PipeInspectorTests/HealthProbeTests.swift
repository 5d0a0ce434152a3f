import PipeInspector
import PipeRuntime
import Testing

@Suite("The health of a topology")
struct HealthProbeTests {
  private struct Source: SnapshotSource {
    let value: TopologySnapshot
    func snapshot() async -> TopologySnapshot { value }
  }

  private static func answer(
    _ path: String, _ snapshot: TopologySnapshot, method: String = "GET"
  ) async -> String {
    let response = await MetricsService(Source(value: snapshot)).answer(
      WebRequest(method: method, path: path))
    return "\(response.status) " + String(decoding: response.body, as: UTF8.self)
  }

  private static func snapshot(_ phase: String, isRunning: Bool) -> TopologySnapshot {
    var snapshot = TopologyMetricsTests.snapshot([
      TopologyMetricsTests.node("door"),
      TopologyMetricsTests.node("motor") { node in (node.isRunning, node.phase) = (false, phase) },
    ])
    if case .success(var directory) = snapshot.directory {
      directory.isRunning = isRunning
      snapshot.directory = .success(directory)
    }
    return snapshot
  }

  @Test("A topology whose orchestrator does not answer is neither healthy nor ready")
  func down() async {
    let snapshot = TopologySnapshot(
      topology: "shop", directory: .failure(.init("topology 'shop' is not running")))
    for path in ["/healthz", "/readyz"] {
      #expect(await Self.answer(path, snapshot) == "503 shop: topology 'shop' is not running\n")
    }
  }

  @Test("A topology with a node that is not running is healthy, but not ready")
  func failedNode() async {
    let snapshot = Self.snapshot("failed", isRunning: false)
    #expect(await Self.answer("/healthz", snapshot) == "200 shop: running\n")
    #expect(await Self.answer("/readyz", snapshot) == "503 shop: running\nmotor: failed\n")
  }

  @Test("A topology whose nodes run or have ended by themselves is ready")
  func ready() async {
    let snapshot = Self.snapshot("completed", isRunning: true)
    for path in ["/healthz", "/readyz"] {
      #expect(await Self.answer(path, snapshot) == "200 shop: running\n")
    }
  }

  @Test("The health is read with GET and HEAD only")
  func methods() async {
    let snapshot = Self.snapshot("completed", isRunning: true)
    #expect(await Self.answer("/readyz", snapshot, method: "POST").hasPrefix("405 "))
    #expect(await Self.answer("/readyz", snapshot, method: "HEAD").hasPrefix("200 "))
    #expect(await Self.answer("/health", snapshot).hasPrefix("404 "))
  }
}
