import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The exit code of what stops nodes", .timed)
struct StopOutcomeTests {
  /// Two nodes, of which one dies as soon as it is told to stop.
  private static let pair = """
    topology: pair
    program: TestNodes
    nodes:
      dying: { machine: Button, environment: { PIPERUNTIME_FAILPOINTS: "dying:drain.before=crash" } }
      other: { machine: Button }
    """

  @Test("'down' is 1 where a node did not stop in order, and says which and why")
  func down() async throws {
    try await DetachedTopology.with(Self.pair, name: "pair") { pair in
      let down = try await pair.run("down", code: 1)
      #expect(down.output == "pair: down, not in order\n")
      #expect(
        down.error
          == "orchestrator: error: pair: node 'dying' did not stop in order: killed by SIGKILL\n")
      #expect(pair.tool.directory.processes.isEmpty)
    }
  }

  @Test("'run' is 1 as well, where it is asked to stop")
  func run() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.pair, to: "pair.yaml")
      let run = try tool.start(["run", "--plain", "pair.yaml"])
      let isRunning = try await run.waitForOutput(
        containing: "2 nodes running", within: .seconds(60))
      #expect(isRunning, "\(run.outputText)\(run.errorText)")
      run.signal(.interrupt)
      let result = try await tool.end(of: run, within: .seconds(60), code: 1)
      #expect(result.output.contains("dying: did not stop in order: killed by SIGKILL\n"))
      #expect(result.error.hasSuffix("node 'dying' did not stop in order: killed by SIGKILL\n"))
    }
  }

  @Test(
    "'stop' and 'restart' are 1, and the node is stopped, or runs again",
    arguments: [("stop", "stopped"), ("restart", "running")])
  func byHand(verb: String, phase: String) async throws {
    try await DetachedTopology.with(Self.pair, name: "pair") { pair in
      let result = try await pair.run(verb, "dying", "other", code: 1)
      #expect(
        result.error
          == "orchestrator: error: node 'dying' did not stop in order: killed by SIGKILL; "
          + "'orchestrator logs dying' may tell why\n")
      for node in ["dying", "other"] {
        #expect(try await pair.directory()[node: node]?.phase == phase)
      }
      // The others, and the next time, are as always.
      try await pair.run(verb, "other")
    }
  }

  @Test("'down --force' is 0: it kills, as it was asked to")
  func force() async throws {
    try await DetachedTopology.with(Self.pair, name: "pair") { pair in
      let down = try await pair.run("down", "--force")
      #expect(down.output == "pair: down\n")
    }
  }
}
