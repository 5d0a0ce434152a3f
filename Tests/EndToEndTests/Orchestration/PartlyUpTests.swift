import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("'up NODE' and 'down NODE'", .timed)
struct PartlyUpTests {
  private static let chain = """
    topology: chain
    program: TestNodes
    nodes:
      needier: { machine: Button, depends_on: [needy] }
      needy: { machine: Button, depends_on: [base] }
      base: { machine: Button }
      free: { machine: Button }
      left: { machine: Gate }
      right: { machine: Gate }
    composites:
      lock: { components: [left, right], synchronize: { open: } }
    """

  private func with(
    _ body: (DetachedTopology, ([String]) async throws -> CommandLineTool.Result) async throws
      -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      let chain = try DetachedTopology(tool: tool, name: "chain", yaml: Self.chain)
      try await body(chain) { arguments in
        try await tool.result(of: try tool.start(arguments), within: .seconds(60))
      }
    }
  }

  private func phases(_ topology: DetachedTopology) async throws -> [String: String] {
    Dictionary(
      uniqueKeysWithValues: try await topology.directory().nodes.map { ($0.name, $0.phase) })
  }

  /// Returns the beginnings of lines: `needy: running, pid 7` becomes `needy: running`.
  private func progressLines(_ result: CommandLineTool.Result) -> [String] {
    result.output.split(separator: "\n").map { line in String(line.prefix { $0 != "," }) }
  }

  @Test("'up NODE' starts a node with its dependencies, and a later 'up' starts further nodes")
  func up() async throws {
    try await with { chain, run in
      let up = try await run(["up", "--wait", "chain.yaml", "needy"])
      #expect(up.code == 0 && progressLines(up) == ["chain: running"], "\(up)")
      var phases = try await phases(chain)
      #expect(phases.filter { $0.value == "running" }.keys.sorted() == ["base", "needy"])
      #expect(phases.filter { $0.value == "stopped" }.count == 5, "\(phases)")
      let pids = try await chain.pids()

      let more = try await run(["up", "chain.yaml", "needier", "--wait"])
      #expect(more.code == 0, "\(more)")
      #expect(progressLines(more) == ["needier: running", "needy: running", "base: running"])
      #expect(try await chain.pids()["base"] == pids["base"])

      // A composite depends on its nodes.
      let lock = try await run(["up", "--name", "chain", "lock", "--wait"])
      #expect(lock.code == 0, "\(lock)")
      #expect(progressLines(lock) == ["left: running", "right: running", "lock: running"])
      phases = try await self.phases(chain)
      #expect(phases.filter { $0.value == "stopped" }.keys.sorted() == ["free"])

      let free = try await run(["up", "chain.yaml", "free"])
      #expect(free.code == 0, "\(free)")
      try await chain.await("the rest to run") { $0.nodes.allSatisfy(\.isRunning) }
    }
  }

  @Test("'down NODE' stops dependent nodes first, and '--no-deps' selects the named nodes alone")
  func down() async throws {
    try await with { chain, run in
      try await chain.up()
      let before = try await chain.pids()
      let down = try await run(["down", "needy"])
      #expect(
        down.code == 0 && progressLines(down) == ["needier: stopped", "needy: stopped"], "\(down)")
      #expect(try await chain.pids()["base"] == before["base"])

      let alone = try await run(["up", "--no-deps", "--wait", "chain.yaml", "needier"])
      #expect(alone.code == 1, "\(alone)")
      #expect(alone.error.contains("node 'needier' waits for dependency 'needy'"), "\(alone)")
      let both = try await run(["up", "--wait", "chain.yaml", "needier"])
      #expect(both.code == 0, "\(both)")

      let one = try await run(["down", "--no-deps", "base"])
      #expect(one.code == 0 && progressLines(one) == ["base: stopped"], "\(one)")
      let phases = try await phases(chain)
      #expect(phases["needy"] == "running" && phases["needier"] == "running", "\(phases)")

      let force = try await run(["down", "--force", "needy"])
      #expect(force.code == 2 && force.error.contains("'orchestrator kill needy'"), "\(force)")
      let all = try await run(["down"])
      #expect(all.code == 0 && all.output == "chain: down\n", "\(all)")
    }
  }

  @Test("'run NODE' starts the named nodes, and an unknown node is refused before any start")
  func run() async throws {
    try await with { chain, run in
      for arguments in [
        ["run", "chain.yaml", "nobody"], ["up", "chain.yaml", "nobody"],
        ["up", "--wait", "chain.yaml", "base", "nobody"],
      ] {
        let result = try await run(arguments)
        #expect(result.code == 2, "\(arguments): \(result)")
        #expect(result.error.contains("'nobody'"), "\(result)")
      }
      let program = try chain.tool.start(["run", "--plain", "chain.yaml", "--no-deps", "free"])
      let isRunning = try await program.waitForOutput(
        containing: "1 node running", within: .seconds(60))
      #expect(isRunning, "\(program.outputText)\(program.errorText)")
      program.signal(.interrupt)
      try await chain.tool.end(of: program, within: .seconds(60))
    }
  }
}
