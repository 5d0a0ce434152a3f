import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Exit codes and last lines of verbs", .timed)
struct VerbOutcomeTests {
  /// A command line and its expected outcome.
  struct Row {
    let arguments: String
    let code: Int32
    /// A part of the last line of standard output, or of standard error if there is an error.
    let last: String

    init(_ arguments: String, _ code: Int32, _ last: String) {
      self.arguments = arguments
      self.code = code
      self.last = last
    }
  }

  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      button: { machine: Button }
      gate: { machine: Gate }
      broken: { machine: Button, durability: process }
    """

  private static let verbsOnTopology = [
    "ps", "status", "down", "down button", "start button", "stop button", "restart button",
    "kill button", "send button press", "wait button=pressed", "monitor", "describe button",
    "why button", "pipe ls", "pipe info 1", "pipe hz", "pipe echo 1", "pipe send 1 press",
    "trace", "graph", "graph button --live",
  ]

  private static let nothingRuns =
    verbsOnTopology.map {
      Row($0, 3, "no topology is running; 'orchestrator up FILE' starts a topology")
    }
    + ["logs button", "journal button", "letters button", "reset button"].map {
      Row($0, 3, "no topology has run on this host yet")
    }
    + ["check", "config", "graph", "run", "up", "up --wait", "apply", "apply --dry-run"].map {
      Row($0 + " nofile.yaml", 2, "nofile.yaml: error: no such file")
    } + [
      Row("ps -p nope", 3, "topology 'nope' is not running; running: none"),
      Row("up button", 2, "topology.yaml: error: no such file"),
      Row("up ward.yaml nobody", 2, "no such node 'nobody'; the nodes are 'button'"),
      Row("apply ward.yaml", 3, "topology 'ward' is not running; running: none"),
      Row("apply -p nope ward.yaml", 3, "topology 'nope' is not running; running: none"),
      Row("web", 3, "no topology is running; 'orchestrator up FILE' starts a topology"),
      Row("web --port 70000", 2, "invalid value '70000' for --port"),
      Row("ls", 0, "NAME  STATUS  PID  UPTIME  FILE"),
      Row("ls -q", 0, ""),
      Row("check ward.yaml", 0, "ward.yaml: ok: 3 nodes, 0 pipes"),
      Row("nosuchverb", 2, "orchestrator --help"),
      Row("ps --nosuchoption", 2, "orchestrator ps --help"),
      Row("pipe", 2, "orchestrator pipe --help"),
      Row("pipe list", 2, "must be one of ls, info, hz, echo, send"),
      Row("pipe info", 2, "orchestrator pipe --help"),
      Row("pipe ls 1", 2, "orchestrator pipe --help"),
      Row("pipe send 1", 2, "orchestrator pipe --help"),
      Row("pipe info 1 -n 3", 2, "orchestrator pipe --help"),
    ]

  private static let nobody =
    [
      "start", "stop", "restart", "kill", "describe", "graph", "why", "dead-letters", "monitor",
      "trace",
      "down",
      "up ward.yaml",
    ].map {
      Row($0 + " nobody", 2, "no such node 'nobody'; the nodes are 'button', 'gate', 'broken'")
    }
    + [
      Row("send nobody press", 2, "no such node 'nobody'"),
      Row("wait nobody=x", 2, "no such node 'nobody'"),
      Row("logs nobody", 2, "has no log of node 'nobody'; it has 'broken', 'button', 'gate'"),
      Row(
        "journal nobody", 2,
        "no node 'nobody' of topology 'ward' has run on this host; there are 'broken', 'button', 'gate'"
      ),
      Row("reset nobody", 2, "no node 'nobody' of topology 'ward' has run on this host"),
    ]

  /// The verbs on a topology with a failed node, in order: each row depends on the rows before it.
  private static let oneHasFailed = [
    Row("up --wait ward.yaml", 1, "node 'broken' failed: the journal"),
    Row("run ward.yaml", 1, "topology 'ward' is already running"),
    Row("apply --dry-run ward.yaml", 0, "ward: nothing to change"),
    Row("apply ward.yaml", 0, "ward: nothing to change"),
    Row("apply --timeout never ward.yaml", 2, "invalid value 'never' for --timeout"),
    Row("ps", 0, "failed"),
    Row("status", 1, "is damaged"),
    Row("ls", 0, "/ward.yaml"),
    Row("start button", 0, "button: running, pid "),
    Row("start broken", 1, "node 'broken' failed: the journal"),
    Row("restart broken", 1, "node 'broken' failed: the journal"),
    Row("kill broken", 1, "node 'broken' has no process: the node is failed"),
    Row("send broken press", 1, "node 'broken' is not running: the journal"),
    Row(
      "wait broken=pressed --timeout 100ms", 124,
      "timed out after 100 ms: 'broken' is failed (the journal"),
    Row("stop broken", 0, "broken: failed"),
    Row("stop gate", 0, "gate: stopped"),
    Row("stop gate", 0, "gate: stopped"),
    Row("send gate pass", 1, "node 'gate' is not running: stopped"),
    Row("start gate", 0, "gate: running, pid "),
    Row("down gate", 0, "gate: stopped"),
    Row("down --force gate", 2, "use 'orchestrator kill gate'"),
    Row("up --wait ward.yaml gate", 0, "gate: running, pid "),
    Row("up --wait ward.yaml broken", 1, "node 'broken' failed: the journal"),
    Row("up --wait nofile.yaml gate", 2, "nofile.yaml: error: no such file"),
    Row("restart button", 0, "button: running, pid "),
    Row("send button press", 0, #"button: {"pressed":{"times":1}}  (version 1)"#),
    Row("send gate pass", 1, #"node 'gate' refused pass in {"shut":{"passed":0}}"#),
    Row("send gate nope", 2, "machine 'Gate' has no event 'nope'"),
    Row("wait button=pressed --timeout 60s", 0, "button: pressed(times: 1)  (version 1)"),
    Row("wait button=nope", 2, "node 'button' has no state 'nope'; it has 'pressed'"),
    Row("wait gate=open --timeout 100ms", 124, ", not in open"),
    Row("why gate open", 0, "yes"),
    Row("why gate pass", 4, "the state has no transition for the event"),
    Row("describe gate", 0, ""),
    Row("trace --for 10ms button", 0, "no node took a step within 10 ms"),
    Row("pipe ls", 0, "#  PIPE  SENT  APPLIED  UNDER WAY  CAPACITY  TROUBLE"),
    Row("pipe info 1", 2, "no such pipe '1'"),
    Row("pipe hz -n 1", 1, "topology 'ward' has no pipes"),
    Row("graph --live", 0, ""),
    Row("graph gate --live", 0, ""),
    Row("graph gate -o png", 2, "invalid value 'png' for -o: must be one of ascii"),
    Row("logs button", 0, "button | "),
    Row("journal button", 0, "pressed(times: 1)"),
    Row("reset button", 1, "'orchestrator stop button'"),
    Row("down ward.yaml", 2, "name a running topology with -p NAME"),
    Row("down --timeout 60s", 0, "ward: down"),
    Row("down", 3, "no topology is running"),
    Row("reset button", 0, "button: "),
  ]

  @Test("Verbs have the documented outcomes with no topology, a wrong name, or a failed node")
  func outcomes() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.ward, to: "ward.yaml")
      for row in Self.nothingRuns { try await check(row, tool) }
      let directories = try RuntimeDirectories(topology: "ward", roots: tool.directory.roots)
      try FileSystem.makeDirectories(directories.journals, mode: 0o700)
      try FileSystem.replace(directories.journal(of: "broken"), with: Array("no journal".utf8))
      try await check(Row("up --wait ward.yaml", 1, "ward: 1 of 3 nodes failed; "), tool)
      for row in Self.nobody + Self.oneHasFailed { try await check(row, tool) }
    }
  }

  func check(_ row: Row, _ tool: CommandLineTool) async throws {
    let program = try tool.start(row.arguments.split(separator: " ").map(String.init))
    let result = try await tool.result(of: program, within: .seconds(60))
    #expect(result.code == row.code, "\(row.arguments): \(result)")
    let text = result.error.isEmpty ? result.output : result.error
    let last = text.split(separator: "\n").last ?? ""
    #expect(row.last.isEmpty || last.contains(row.last), "\(row.arguments): \(result)")
  }
}
