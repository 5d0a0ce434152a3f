import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("A suspended orchestrator", .timed)
struct SilentOrchestratorTests {
  private static let pair = """
    topology: pair
    program: TestNodes
    nodes:
      left: { machine: Button }
      right: { machine: Button }
    """

  @Test(
    "A suspended orchestrator is listed as silent, 'down' times out, and 'down --force' kills it")
  func standsStill() async throws {
    try await DetachedTopology.with(Self.pair, name: "pair") { pair in
      let pids = try await pair.pids()
      let orchestrator = try #require(RunningTopology.find(try pair.directories)?.pid)
      #expect(kill(orchestrator, SIGSTOP) == 0)
      let list = try await pair.tool.run("ls", "-o", "json", within: .seconds(60))
      #expect(list.output.contains(#""status":"silent""#), "\(list)")
      let down = try await pair.run("down", "--timeout", "100ms", code: 124)
      #expect(down.output.isEmpty)
      let error = TopologyClientError.notAnswering("pair", after: .milliseconds(100))
      #expect(down.reports(error), "\(down)")
      let force = try await pair.run("down", "--force")
      #expect(
        force.output
          == "pair: down; the orchestrator did not respond and was killed, 2 nodes ended\n")
      #expect(pair.alive(pids.values).isEmpty)
      #expect(pair.tool.directory.processes.isEmpty)
    }
  }
}
