import PipeInspector
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The verb 'inspector metrics'", .timed, .stallLimit(.seconds(120)))
struct MetricsVerbTests {
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      button: { machine: Button, durability: process }
      gate: { machine: Gate }
    pipes:
      - { from: button, when: pressed, to: gate, send: pass, name: visitors }
    """

  private static func label(_ labels: String) -> String { "{topology=\"ward\",\(labels)}" }

  @Test("Metrics report the counters of nodes and pipes")
  func figures() async throws {
    try await DetachedTopology.with(Self.ward) { topology in
      let inspector = try await InspectorProgram(topology.tool, "metrics")
      // The button has already sent an event on entry into its first state.
      try await topology.run("send", "button", "press")
      try await inspector.await(
        "piperuntime_pipe_applied_events_total"
          + Self.label("pipe=\"visitors\",from=\"button\",to=\"gate\"") + " 2")
      // A busy node's figures may be older.
      for line in [
        "piperuntime_up{topology=\"ward\"} 1",
        "piperuntime_node_events_total" + Self.label("node=\"button\",outcome=\"accepted\"") + " 1",
        "piperuntime_node_events_total" + Self.label("node=\"gate\",outcome=\"refused\"") + " 2",
        "piperuntime_node_dead_letters" + Self.label("node=\"gate\"") + " 2",
        "piperuntime_node_state" + Self.label("node=\"gate\",state=\"shut\"") + " 1",
        "piperuntime_node_state" + Self.label("node=\"gate\",state=\"open\"") + " 0",
      ] { try await inspector.await(line) }
      let lines = try await inspector.metrics()
      let ofButton = Self.label("node=\"button\"")
      for name in [
        "node_journal_disk_bytes", "node_journal_disk_free_bytes", "node_journal_records_total",
        "node_journal_record_duration_seconds_count",
        "node_step_duration_seconds_count", "node_cpu_seconds_total", "node_resident_memory_bytes",
      ] {
        #expect(lines.contains { $0.hasPrefix("piperuntime_\(name)\(ofButton) ") }, "\(name)")
      }
      try await inspector.stop(topology.tool)
    }
  }

  /// Returns the output and the exit code of `promtool check metrics` for these lines.
  private static func check(
    _ lines: [String], _ tool: CommandLineTool
  ) async throws -> (code: Int32?, said: String) {
    try tool.directory.write(lines.joined(separator: "\n") + "\n", to: "metrics.txt")
    let program = try tool.start(
      program: "/bin/sh", ["-c", "/usr/bin/promtool check metrics < metrics.txt 2>&1"])
    let result = try await tool.result(of: program)
    return (result.code, result.output)
  }

  @Test("The metrics pass promtool's checks", .needsPrometheus)
  func form() async throws {
    try await DetachedTopology.with(DashboardTests.house, name: "house") { topology in
      let inspector = try await InspectorProgram(topology.tool, "metrics")
      // Waits until a composite and a pipe have counted events, so that each family has a value.
      try await inspector.await {
        $0.hasPrefix("piperuntime_synchronized_events_total{") && $0.contains("committed")
          && !$0.hasSuffix(" 0")
      }
      let lines = try await inspector.metrics()
      let checkResult = try await Self.check(lines, topology.tool)
      #expect(checkResult.code == 0 && checkResult.said == "", "\(checkResult)")
      // Checks that promtool detects errors: it requires the suffix of a counter.
      let wrong = lines.map { $0.replacing("_events_total", with: "_events_counted") }
      let problems = try await Self.check(wrong, topology.tool)
      #expect(
        problems.said.contains("counter metrics should have \"_total\" suffix"), "\(problems)")
      try await inspector.stop(topology.tool)
    }
  }

  @Test("Metrics show a stopped topology as down, and are complete again after its restart")
  func comesBack() async throws {
    try await DetachedTopology.with(Self.ward) { topology in
      let inspector = try await InspectorProgram(topology.tool, "metrics")
      try await inspector.await("piperuntime_up{topology=\"ward\"} 1")
      try await topology.run("down")
      try await inspector.await("piperuntime_up{topology=\"ward\"} 0")
      #expect(try await inspector.metrics().count { !$0.hasPrefix("#") } == 1)
      try await topology.up()
      try await inspector.await("piperuntime_node_up" + Self.label("node=\"gate\"") + " 1")
      try await topology.run("stop", "gate")
      try await inspector.await("piperuntime_node_up" + Self.label("node=\"gate\"") + " 0")
      try await inspector.stop(topology.tool)
    }
  }

  @Test("'inspector metrics' waits for a named topology that does not run yet")
  func named() async throws {
    try await CommandLineTool.launching { tool in
      let inspector = try await InspectorProgram(tool, "metrics", "-p", "ward")
      #expect(
        inspector.program.errorText.contains(
          "\(TopologyClientError.notRunning("ward", running: []))"))
      #expect(inspector.program.errorText.contains("waiting for the topology"))
      try await inspector.await("piperuntime_up{topology=\"ward\"} 0")
      try await inspector.stop(tool)
    }
  }

  @Test(
    "'inspector metrics' with invalid arguments or a used port exits with an error and a remedy")
  func mistakes() async throws {
    try await CommandLineTool.launching { tool in
      let inspector = try await InspectorProgram(tool, "metrics", "-p", "ward")
      for (arguments, code, message) in [
        (
          "metrics -p ward --port \(inspector.client.port)", 1,
          "is in use by process \(inspector.program.pid), 'inspector'; choose another port"
        ),
        ("metrics -p ward --port 65536", 2, "invalid value '65536' for --port"),
        ("metrics -p ward --address here", 2, "\(WebListenerError.invalidAddress("here"))"),
        ("metrics", 3, "\(TopologyClientError.noneRunning)"),
        ("metrix", 2, Suggestion.hint("metrics")),
        ("", 2, "\(UsageError.missingVerb(of: "inspector"))"),
        ("metrics --all", 2, "'--all'"), ("metrics ward", 2, "'ward'"),
      ] as [(String, Int32, String)] {
        let program = try tool.start(
          program: InspectorProgram.path, arguments.split(separator: " ").map(String.init))
        let result = try await tool.end(of: program, code: code)
        #expect(result.error.contains(message) && result.output == "", "\(arguments): \(result)")
        #expect(result.error.hasPrefix("inspector: "), "\(result)")
      }
      for arguments in [["--help"], ["help"], ["metrics", "--help"]] {
        let result = try await tool.end(
          of: tool.start(program: InspectorProgram.path, arguments))
        #expect(result.output.hasPrefix("Usage: inspector ") && result.error == "", "\(result)")
      }
      try await inspector.stop(tool)
    }
  }
}
