import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing
import orchestrator

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

    init(_ arguments: String, _ error: TopologyClientError) {
      self.init(arguments, error.exitCode, "error: \(error)")
    }

    init(_ arguments: String, _ error: UsageError) {
      self.init(arguments, error.code.rawValue, "error: \(error)")
    }

    init(_ arguments: String, _ error: CommandError) {
      self.init(arguments, error.code.rawValue, "error: \(error)")
    }

    /// A row for an event or a state that the owner does not declare.
    init(_ arguments: String, _ noun: String, _ owner: String, no name: String, known: [String]) {
      let text = CaseMismatch.unknownCase(name, known: known).text(noun: noun, owner: owner)
      self.init(arguments, 2, text)
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
    verbsOnTopology.map { Row($0, TopologyClientError.noneRunning) }
    + [
      "logs button", "journal button", "instances button", "letters button", "reset button",
    ].map { Row($0, CommandError.noTopologyHasRun) }
    + ["check", "config", "graph", "run", "up", "up --wait", "apply", "apply --dry-run"].map {
      Row($0 + " nofile.yaml", 2, "[unreadable-file]")
    } + [
      Row("ps -p nope", TopologyClientError.notRunning("nope", running: [])),
      Row("up button", 2, "[unreadable-file]"),
      Row("up ward.yaml nobody", Self.unknownNode(of: ["button", "gate", "broken"])),
      Row("apply ward.yaml", TopologyClientError.notRunning("ward", running: [])),
      Row("apply -p nope ward.yaml", TopologyClientError.notRunning("nope", running: [])),
      Row("web", TopologyClientError.noneRunning),
      Row("backup ward.tar", TopologyClientError.noneRunning),
      Row(
        "restore nofile.tar", 2, "the backup 'nofile.tar' cannot be read: No such file or directory"
      ),
      Row("web --port 70000", 2, "invalid value '70000' for --port"),
      Row("ls", 0, "NAME  STATUS  PID  UPTIME  FILE"),
      Row("ls -q", 0, ""),
      Row("check ward.yaml", 0, "ward.yaml: ok: 3 nodes, 0 pipes"),
      Row("nosuchverb", 2, "orchestrator --help"),
      Row("ps --nosuchoption", 2, "orchestrator ps --help"),
      Row("pipe", 2, "orchestrator pipe --help"),
      Row("pipe list", 2, "invalid value 'list'"),
      Row("pipe info", 2, "orchestrator pipe --help"),
      Row("pipe ls 1", 2, "orchestrator pipe --help"),
      Row("pipe send 1", 2, "orchestrator pipe --help"),
      Row("pipe info 1 -n 3", 2, "orchestrator pipe --help"),
    ]

  private static let nodes = ["button", "gate", "broken"]

  private static func unknownNode(of known: [String]) -> TopologyClientError {
    .unknownNode("nobody", known: known)
  }

  private static let nobody =
    [
      "start", "stop", "restart", "kill", "describe", "graph", "why", "dead-letters", "monitor",
      "trace",
      "down",
      "up ward.yaml",
      "send nobody press", "wait nobody=x",
    ].map { Row($0.contains("nobody") ? $0 : $0 + " nobody", unknownNode(of: nodes)) }
    + [
      Row(
        "logs nobody", 2,
        LogReader.unknownNodeMessage("nobody", of: "ward", known: nodes.sorted()))
    ]
    + ["journal nobody", "instances nobody", "reset nobody"].map {
      Row($0, CommandError.unknownNode("nobody", of: "ward", known: nodes.sorted()))
    }

  private static let unchanged = "ward: \(TopologyChange(entries: []).summary)"

  /// The verbs on a topology with a failed node, in order: each row depends on the rows before it.
  private static let oneHasFailed = [
    Row("up --wait ward.yaml", 1, "node 'broken' failed: the journal"),
    Row("run ward.yaml", 1, "'orchestrator down -p ward'"),
    Row("apply --dry-run ward.yaml", 0, unchanged),
    Row("apply ward.yaml", 0, unchanged),
    Row("apply --timeout never ward.yaml", 2, "invalid value 'never' for --timeout"),
    Row("ps", 0, "failed"),
    Row("status", 1, "is damaged"),
    Row("ls", 0, "/ward.yaml"),
    Row("start button", 0, "button: running, pid "),
    Row("start broken", 1, "node 'broken' failed: the journal"),
    Row("restart broken", 1, "node 'broken' failed: the journal"),
    Row("kill broken", CommandError.noProcess(of: "broken", phase: "failed")),
    Row("send broken press", 1, "\(TopologyClientError.nodeDown("broken", "the journal"))"),
    Row(
      "wait broken=pressed --timeout 100ms", 124,
      "\(TopologyClientError.timedOut("after 100 ms")): 'broken' is failed (the journal"),
    Row("stop broken", 0, "broken: failed"),
    Row("stop gate", 0, "gate: stopped"),
    Row("stop gate", 0, "gate: stopped"),
    Row("send gate pass", TopologyClientError.nodeDown("gate", "stopped")),
    Row("start gate", 0, "gate: running, pid "),
    Row("down gate", 0, "gate: stopped"),
    Row("down --force gate", 2, "use 'orchestrator kill gate'"),
    Row("up --wait ward.yaml gate", 0, "gate: running, pid "),
    Row("up --wait ward.yaml broken", 1, "node 'broken' failed: the journal"),
    Row("up --wait nofile.yaml gate", 2, "[unreadable-file]"),
    Row("restart button", 0, "button: running, pid "),
    Row("send button press", 0, #"button: {"pressed":{"times":1}}  (version 1)"#),
    Row("send gate pass", 1, #"node 'gate' refused pass in {"shut":{"passed":0}}"#),
    Row("send gate nope", "event", "machine 'Gate'", no: "nope", known: gateEvents),
    Row("wait button=pressed --timeout 60s", 0, "button: pressed(times: 1)  (version 1)"),
    Row("wait button=nope", "state", "node 'button'", no: "nope", known: ["pressed"]),
    Row("wait gate=open --timeout 100ms", 124, ", not in open"),
    Row("why gate open", 0, "yes"),
    Row("why gate pass", 4, Refusal.noTransition.wording),
    Row("describe gate", 0, ""),
    Row("trace --for 10ms button", 0, "10 ms"),
    Row("pipe ls", 0, "#  PIPE  SENT  APPLIED  UNDER WAY  CAPACITY  STALLED"),
    Row("pipe info 1", TopologyClientError.unknownPipe("1", known: [])),
    Row("pipe hz -n 1", 1, "topology 'ward'"),
    Row("graph --live", 0, ""),
    Row("graph gate --live", 0, ""),
    Row("graph gate -o png", 2, "invalid value 'png' for -o"),
    Row("logs button", 0, "button | "),
    Row("journal button", 0, "pressed(times: 1)"),
    Row("reset button", 1, "'orchestrator stop button'"),
    Row("down ward.yaml", TopologyClientError.unknownNode("ward.yaml", known: nodes)),
    Row("down --timeout 60s", 0, "ward: down"),
    Row("down", TopologyClientError.noneRunning),
    Row("reset button", 0, "button: "),
  ]

  /// The events of the nodes with machine Gate.
  static let gateEvents = ["pass", "open", "shut"]

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
