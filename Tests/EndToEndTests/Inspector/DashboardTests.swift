import Glibc
import PipeInspector
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("docs/grafana.json", .timed, .stallLimit(.seconds(120)))
struct DashboardTests {
  /// A topology with pipes, journals and synchronized events that is active by itself.
  static let house = """
    topology: house
    program: nodes
    nodes:
      door: { machine: ElevatorDoor, durability: process }
      motor: { machine: ElevatorMotor }
      display: { machine: FloorDisplay }
      passengers: { machine: Passengers }
      philosopher1: { machine: Philosopher, parameters: { thought: 100, meal: 100 } }
      philosopher2: { machine: Philosopher, parameters: { thought: 100, meal: 100 } }
      fork1: { machine: Fork }
      fork2: { machine: Fork }
    composites:
      seat1: { components: [philosopher1, fork1, fork2], synchronize: [take, release] }
      seat2: { components: [philosopher2, fork2, fork1], synchronize: [take, release] }
    pipes:
      - { from: door.arrivals, to: display.updates }
      - from: passengers
        when: boarding
        to: door
        send: { personsHaveEntered: { persons: $persons } }
        on_refused: postpone
      - { from: passengers, when: riding, to: door, send: closeButtonWasPressed, on_refused: postpone }
      - { from: door, when: closed, to: motor, send: start, on_refused: postpone }
      - { from: motor, when: arrived, to: door, send: openButtonWasPressed }
      - { from: motor, when: arrived, to: passengers, send: arrived }
    """

  /// The names of the metrics that Prometheus knows.
  static let known: Set<String> = {
    var known: Set<String> = []
    for family in TopologyMetrics.all {
      switch family.kind {
      case .counter: known.insert(family.name + "_total")
      case .gauge: known.insert(family.name)
      case .histogram: known.insert(family.name + "_bucket")
      case .info: known.insert(family.name + "_info")
      }
    }
    return known
  }()

  /// Returns the queries of the dashboard's panels.
  private static func queries() throws -> [String] {
    let text = try #require(FileSystem.text(of: PackagePath.root + "/docs/grafana.json"))
    return queries(in: try JSONValue(parsing: text.utf8))
  }

  private static func queries(in value: JSONValue) -> [String] {
    switch value {
    case .array(let values): values.flatMap(queries)
    case .object(let members):
      members.flatMap { key, value in
        if key == "expr", let query = value.string { [query] } else { queries(in: value) }
      }
    default: []
    }
  }

  @Test("The Grafana dashboard queries nearly all metrics, and only metrics that exist")
  func names() throws {
    let known = Self.known
    let asked = Set(
      try Self.queries().flatMap { query in
        query.matches(of: /piperuntime_[a-z_]+/).map { String(query[$0.range]) }
      })
    #expect(asked.subtracting(known) == [])
    #expect(
      known.subtracting(asked) == [
        "piperuntime_up", "piperuntime_node_info", "piperuntime_node_start_time_seconds",
        "piperuntime_node_blocking_pipes",
        // Only pipes with 'on_refused: ignore' have the first metric, and nodes with a key the second.
        "piperuntime_pipe_ignored_events_total", "piperuntime_node_instances",
      ])
  }

  @Test("Prometheus has data for each query of the Grafana dashboard", .needsPrometheus)
  func data() async throws {
    try await DetachedTopology.with(Self.house, name: "house") { topology in
      let tool = topology.tool
      let inspector = try await InspectorProgram(tool, "metrics")
      let prometheus = try await Prometheus(tool, scraping: inspector.client.port)
      for query in try Self.queries().sorted() {
        let asked =
          query.replacing("$__rate_interval", with: "1m").replacing("$topology", with: ".*")
          .replacing("$node", with: ".*")
        let isAnswered = try await poll(every: .milliseconds(100), within: .seconds(60)) {
          try await prometheus.hasData(for: asked) ? true : nil
        }
        #expect(isAnswered == true, "\(asked)")
      }
      prometheus.program.signal(.terminate)
      try await tool.end(of: prometheus.program)
      try await inspector.stop(tool)
    }
  }
}
