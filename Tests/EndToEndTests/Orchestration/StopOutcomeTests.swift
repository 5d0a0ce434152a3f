import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestTraits
import Testing

@Suite("Exit codes of verbs that stop nodes", .timed)
struct StopOutcomeTests {
  /// Two nodes, where one crashes as soon as it should stop.
  private static let pair = """
    topology: pair
    program: TestNodes
    nodes:
      dying: { machine: Button, environment: { PIPERUNTIME_FAILPOINTS: "dying:drain.before=crash" } }
      other: { machine: Button }
    """

  private static let unstopped = NodeReport.ungracefulStop(
    reason: "\(ProcessExit.signalled(number: SIGKILL))")

  @Test("'down' exits 1 with node and reason if a node did not stop gracefully")
  func down() async throws {
    try await DetachedTopology.with(Self.pair, name: "pair") { pair in
      let down = try await pair.run("down", code: 1)
      #expect(down.output == "pair: down, not gracefully\n")
      #expect(down.error == "orchestrator: error: pair: node 'dying' \(Self.unstopped)\n")
      #expect(pair.tool.directory.processes.isEmpty)
    }
  }

  @Test("An interrupted 'run' exits 1 if a node did not stop gracefully")
  func run() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.pair, to: "pair.yaml")
      let run = try tool.start(["run", "--plain", "pair.yaml"])
      let isRunning = try await run.waitForOutput(
        containing: "2 nodes running", within: .seconds(60))
      #expect(isRunning, "\(run.outputText)\(run.errorText)")
      run.signal(.interrupt)
      let result = try await tool.end(of: run, within: .seconds(60), code: 1)
      #expect(result.output.contains("dying: \(Self.unstopped)\n"))
      #expect(result.error.hasSuffix("node 'dying' \(Self.unstopped)\n"))
    }
  }

  @Test("'send' exits 1 before its timeout when the node fails permanently")
  func nodeOfEventFailed() async throws {
    let ward = """
      topology: ward
      program: TestNodes
      nodes: { bad: { machine: Fragile, restart: { policy: never } } }
      """
    try await DetachedTopology.with(ward) { ward in
      let send = try ward.tool.start(["send", "bad", #"{"exit":{"code":3}}"#, "--timeout", "1h"])
      let result = try await ward.end(of: send, code: 1)
      #expect(result.reports(TopologyClientError.unknownOutcome("bad", after: nil)), "\(result)")
    }
  }

  /// Returns a topology with one node that fails permanently and another node.
  private static func mixed(_ other: String) -> String {
    """
    topology: mixed
    program: TestNodes
    nodes:
      bad: { machine: Fragile, parameters: { diesAtStart: true }, restart: { policy: never } }
      other: \(other)
    """
  }

  @Test("'run' exits 1 when a node has failed permanently, however the other nodes end")
  func nodeFailed() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.mixed("{ machine: Button }"), to: "mixed.yaml")
      for signal in [Signal.interrupt, .terminate] {
        let run = try tool.start(["run", "--plain", "mixed.yaml"])
        let isTold = try await run.waitForOutput(containing: "bad: failed", within: .seconds(60))
        #expect(isTold, "\(run.outputText)\(run.errorText)")
        #expect(try await run.waitForOutput(containing: " running", within: .seconds(60)))
        run.signal(signal)
        let result = try await tool.end(of: run, within: .seconds(60), code: 1)
        #expect(result.error.hasPrefix("bad | ") || result.error.contains("node 'bad' failed: "))
        #expect(result.output.hasSuffix("mixed: stopped\n"), "\(result)")
      }
      // 'down' succeeds: it has stopped the topology.
      try await tool.run("up", "-d", "mixed.yaml", code: 0)
      let hasFailed: Bool? = try await poll(within: .seconds(20), of: tool.directory) {
        try await tool.run("ps").output.contains("failed") ? true : nil
      }
      #expect(hasFailed == true)
      try await tool.run("down", code: 0)
    }
  }

  @Test("'run' exits 1 when a node has failed permanently and the others have ended by themselves")
  func othersEnded() async throws {
    try await CommandLineTool.launching { tool in
      let other = "{ machine: Fragile, restart: { policy: on-failure } }"
      try tool.directory.write(Self.mixed(other), to: "mixed.yaml")
      let run = try tool.start(["run", "--plain", "mixed.yaml"])
      #expect(try await run.waitForOutput(containing: "bad: failed", within: .seconds(60)))
      #expect(try await run.waitForOutput(containing: " running", within: .seconds(60)))
      let sending = try tool.start(["send", "other", #"{"exit":{"code":0}}"#])
      defer { sending.signal(.kill) }
      let result = try await tool.end(of: run, within: .seconds(60), code: 1)
      #expect(
        result.output.contains("mixed: stopped: all nodes have ended; node 'bad' failed: "),
        "\(result)")
    }
  }

  @Test("'send' exits 1 for an event that kills its node and becomes a dead letter")
  func poison() async throws {
    let yaml = """
      topology: pair
      program: TestNodes
      nodes:
        other: { machine: Fragile, durability: process, restart: { backoff: { initial: 20ms } } }
      """
    try await DetachedTopology.with(yaml, name: "pair") { pair in
      let sent = try await pair.run("send", "other", #"{"exit":{"code":3}}"#, code: 1)
      #expect(
        sent.error.contains("node 'other' refused ") && sent.error.contains(" 3 times"), "\(sent)")
      let deadLetters = try await pair.run("dead-letters", "other")
      #expect(deadLetters.output.contains("exit"), "\(deadLetters)")
    }
  }

  @Test(
    "'stop' and 'restart' complete, but exit 1 if a node did not stop gracefully",
    arguments: [("stop", "stopped"), ("restart", "running")])
  func byHand(verb: String, phase: String) async throws {
    try await DetachedTopology.with(Self.pair, name: "pair") { pair in
      let result = try await pair.run(verb, "dying", "other", code: 1)
      #expect(
        result.error
          == "orchestrator: error: node 'dying' \(Self.unstopped); check 'orchestrator logs dying'\n"
      )
      for node in ["dying", "other"] {
        #expect(try await pair.directory()[node: node]?.phase == phase)
      }
      // The other node, and the next call, succeed as usual.
      try await pair.run(verb, "other")
    }
  }

  @Test("'down --force' exits 0 after killing the nodes")
  func force() async throws {
    try await DetachedTopology.with(Self.pair, name: "pair") { pair in
      let down = try await pair.run("down", "--force")
      #expect(down.output == "pair: down\n")
    }
  }
}
