import PipeInspector
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("docs/alerts.yaml", .timed)
struct AlertTests {
  private static let path = PackagePath.root + "/docs/alerts.yaml"

  @Test("The alert rules query only metrics that exist")
  func names() throws {
    let text = try #require(FileSystem.text(of: Self.path))
    let asked = Set(text.matches(of: /piperuntime_[a-z_]+/).map { String(text[$0.range]) })
    #expect(asked.subtracting(DashboardTests.known) == [])
    #expect(asked.count > 8)
  }

  private static func promtool(
    _ arguments: [String], _ tool: CommandLineTool
  ) async throws -> CommandLineTool.Result {
    try await tool.result(of: tool.start(program: "/usr/bin/promtool", arguments))
  }

  @Test("promtool accepts the alert rules", .needsPrometheus)
  func form() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let result = try await Self.promtool(["check", "rules", Self.path], tool)
    #expect(result.code == 0 && result.output.contains("SUCCESS"), "\(result)")
  }

  @Test(
    "Alerts fire for topologies and nodes that are down, and not for a short restart",
    .needsPrometheus)
  func fires() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(
      """
      rule_files: ['\(Self.path)']
      evaluation_interval: 1m
      tests:
        - interval: 1m
          input_series:
            - { series: 'piperuntime_up{topology="shop"}', values: '1 1 0 0 0 0' }
            - { series: 'piperuntime_node_up{topology="shop",node="till"}', values: '0 0 0 0 0 0' }
            - { series: 'piperuntime_node_up{topology="shop",node="door"}', values: '1 0 1 1 1 1' }
          alert_rule_test:
            - { eval_time: 1m, alertname: PipeRuntimeTopologyDown }
            - eval_time: 4m
              alertname: PipeRuntimeTopologyDown
              exp_alerts:
                - exp_labels: { severity: critical, topology: shop }
                  exp_annotations:
                    summary: Topology shop is down
                    description: The orchestrator does not answer. 'orchestrator ls' shows whether its nodes are still running.
            - eval_time: 4m
              alertname: PipeRuntimeNodeDown
              exp_alerts:
                - exp_labels: { severity: critical, topology: shop, node: till }
                  exp_annotations:
                    summary: Node till of shop is not running
                    description: "'orchestrator status -p shop' shows why."

      """, to: "tests.yaml")
    let result = try await Self.promtool(["test", "rules", "tests.yaml"], tool)
    #expect(result.code == 0 && result.output.contains("SUCCESS"), "\(result)")
  }
}
