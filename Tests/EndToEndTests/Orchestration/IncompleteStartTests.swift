import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestTraits
import Testing

@Suite("A start in which some nodes do not run", .timed)
struct IncompleteStartTests {
  /// A topology in which `broken` fails at its start, and `needy` and `needier` depend on it.
  private static let chain = """
    topology: chain
    program: TestNodes
    nodes:
      needier: { machine: Button, depends_on: [needy] }
      needy: { machine: Button, depends_on: [broken] }
      broken: { machine: Button, durability: process }
      free: { machine: Button }
    """

  private func start(
    _ body: (CommandLineTool, CommandLineTool.Result) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.chain, to: "chain.yaml")
      let directories = try RuntimeDirectories(topology: "chain", roots: tool.directory.roots)
      try FileSystem.makeDirectories(directories.journals, mode: 0o700)
      try FileSystem.replace(directories.journal(of: "broken"), with: Array("no journal".utf8))
      try await body(tool, try await tool.run("up", "--wait", "chain.yaml", within: .seconds(60)))
      _ = try await tool.run("down", within: .seconds(60))
    }
  }

  @Test("'up --wait' exits 1 as soon as a node fails, with the numbers of failed and waiting nodes")
  func upWaits() async throws {
    try await start { tool, up in
      #expect(up.code == 1, "\(up)")
      #expect(up.output.hasPrefix("chain: partly running, orchestrator pid "), "\(up)")
      let lines = up.error.split(separator: "\n")
      #expect(
        lines.last
          == """
          orchestrator: error: chain: 1 of 4 nodes failed, 2 of 4 nodes wait for other nodes; \
          'orchestrator status -p chain' shows details, 'orchestrator down -p chain' stops the other \
          nodes
          """, "\(up)")
      #expect(
        lines.contains("needy: \(NodeReport.waiting(.init("broken", .failed)))"),
        "\(up)")
    }
  }

  @Test("A node waits while its dependency has failed, and starts when the dependency runs")
  func waits() async throws {
    try await start { tool, _ in
      let status = try await tool.run("status", within: .seconds(60))
      for line in [
        "needier ready \(NodeReport.waiting(.init("needy", .waiting)))",
        "needy ready \(NodeReport.waiting(.init("broken", .failed)))",
      ] {
        let lines = status.output.split(separator: "\n").map {
          $0.split(separator: " ").joined(separator: " ")
        }
        #expect(lines.contains(line), "\(status)")
      }
      let start = try await tool.run("start", "needy", within: .seconds(60), code: 1)
      #expect(
        start.error
          == "orchestrator: error: node 'needy' \(NodeReport.waiting(.init("broken", .failed))); "
          + "start 'broken', too\n")
      // No event reaches the node before it runs.
      let send = try await tool.run(
        "send", "needy", "press", "--timeout", "2s", within: .seconds(60), code: 1)
      #expect(send.error.contains("\(TopologyClientError.nodeDown("needy", ""))"), "\(send)")
    }
  }
}
