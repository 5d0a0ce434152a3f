import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing
import orchestrator

extension VerbOutcomeTests {
  private static let busy = """
    topology: ward
    program: TestNodes
    timeouts: { heartbeat: 10m }
    nodes:
      button: { machine: Button }
      gate: { machine: Gate }
      src: { machine: Gate }
      frag: { machine: Fragile, restart: { backoff: { initial: 10ms } } }
    pipes:
      - { from: gate, when: open, to: button, send: press, name: p1 }
      - { from: button, when: pressed, to: src, send: pass, name: p2 }
    composites:
      both: { components: [gate, src], synchronize: [open] }
    """

  private static let unknownPipe = TopologyClientError.unknownPipe("nope", known: ["p1", "p2"])
  private static let noDeadLetter = TopologyClientError.invalidEvent(
    "src", DeadLetter.unknownMessage(id: 99))

  private static let usage = [
    Row("ls -p ward", 2, "orchestrator ls --help"),
    Row("start", 2, "orchestrator start --help"),
    Row("stop", 2, "orchestrator stop --help"),
    Row("kill", 2, "orchestrator kill --help"),
    Row("kill -s NOPE gate", 2, "invalid value 'NOPE' for -s"),
    Row("send", 2, "orchestrator send --help"),
    Row("send button", 2, "EVENT is missing"),
    Row("send button press --timeout 1", 2, "invalid value '1' for --timeout"),
    Row("wait", 2, "orchestrator wait --help"),
    Row("wait button", 2, "'button' is not NODE=STATE"),
    Row("wait both=x", 2, "'NODE=x'"),
    Row("logs -n x", 2, "invalid value 'x' for -n"),
    Row("logs --since never", 2, "invalid value 'never' for --since"),
    Row("monitor --tap nope", unknownPipe),
    Row("monitor --steps --tap p1", UsageError.conflict("--steps", "--tap")),
    Row("ui", 2, "'ui' requires a terminal"),
    Row("trace --for x", 2, "invalid value 'x' for --for"),
    Row(
      "describe nobody",
      TopologyClientError.unknownNode("nobody", known: ["button", "gate", "src", "frag", "both"])),
    Row("why gate nope", "event", "machine 'Gate'", no: "nope", known: gateEvents),
    Row("why both nope", 2, "composite 'both'"),
    Row("instances", 2, "orchestrator instances --help"),
    Row("backup", 2, "orchestrator backup --help"),
    Row("restore", 2, "orchestrator restore --help"),
    Row("dead-letters", 2, "orchestrator dead-letters --help"),
    Row("letters button bogus", 2, "invalid value 'bogus' for list|show|resend|drop"),
    Row("letters src drop", 2, "orchestrator dead-letters --help"),
    Row("letters src show 99", 2, "node 'src'"),
    Row("letters src resend 99", noDeadLetter),
    Row("letters src drop 99", noDeadLetter),
    Row("pipe info nope", unknownPipe),
    Row("pipe send nope press", unknownPipe),
    Row("pipe send p1 nope", "event", "machine 'Button'", no: "nope", known: ["press"]),
    Row("send both nope", 2, "composite 'both'"),
    Row("send both pass", 2, "composite 'both'"),
    Row("send gate open", 2, "\(RoutingError.requiresComposite("open", composite: "both"))"),
    Row("run", 2, "orchestrator run --help"),
    Row("submit ward.yaml", 2, "'submit' requires --deployment FILE"),
    Row("check", 2, "orchestrator check --help"),
    Row("check --time 1s ward.yaml", 2, "--time requires --explore"),
    Row("check --explore nofile.yaml", 2, "[unreadable-file]"),
    Row("test nofile", 2, "[unreadable-file]"),
    Row("config nofile.yaml", 2, "[unreadable-file]"),
    Row("export bogus ward.yaml", 2, "invalid value 'bogus' for FORMAT"),
    Row("export promela nofile.yaml", 2, "[unreadable-file]"),
    Row("agent", 2, "orchestrator agent --help"),
    Row("install-service", 2, "orchestrator install-service --help"),
    Row("install-service nofile.yaml", 2, "[unreadable-file]"),
    Row("help --man send", 2, "orchestrator help --help"),
    Row("run --log-format xml ward.yaml", 2, "invalid value 'xml' for --log-format"),
    Row("run --ui --service ward.yaml", UsageError.conflict("--ui", "--service")),
    Row("init", 2, "orchestrator init --help"),
    Row("schema x", 2, "orchestrator schema --help"),
    Row("completion ksh", 2, "invalid value 'ksh' for SHELL"),
    Row("version x", 2, "orchestrator version --help"),
    Row("help nope", 2, "orchestrator --help"),
  ]

  /// The verbs on a running topology, in order: each row depends on the rows before it.
  private static let running = [
    Row("up ward.yaml", 0, "orchestrator pid "),
    Row("probe --ready", 0, "ward: running"),
    Row("send src pass", 1, "node 'src' refused pass"),
    Row("why both open", 0, "src"),
    Row("send both open", 0, "both: open committed as"),
    Row("why gate open", 4, Refusal.noTransition.wording),
    Row("send both open", 1, "composite 'both' refused open"),
    Row("wait button=pressed --timeout 60s", 0, "button: pressed"),
    Row("monitor -n 1 button", 0, "button"),
    Row("describe both", 0, ""),
    Row("why gate", 0, ""), Row("why", 0, ""),
    Row("journal both", 0, ""),
    Row("pipe send p1 press", 0, "button: "),
    Row(#"send frag {"exit":{"code":3}}"#, 1, "node 'frag' refused "),
    Row("letters frag", 0, "exit(code: 3)"),
    Row("letters frag show 1", 0, "(version 0)"),
    Row("letters frag drop 1", 0, "frag: dead letter 1 dropped"),
    Row("stop gate", 0, "gate: stopped"),
    Row("send both open", 1, "participant 'gate'"),
    Row("kill gate", CommandError.noProcess(of: "gate", phase: "stopped")),
    Row(
      "wait gate=open --timeout 50ms", 124,
      "\(TopologyClientError.timedOut("after 50 ms")): 'gate' is stopped"),
    Row("status", 1, ""),
    Row("start gate", 0, "gate: running, pid "),
    Row("stop both", 0, "both: stopped"),
    Row("restart both", 0, "both: running, pid "),
    // The node's process is suspended, so the client learns only that the timeout has passed.
    Row("kill -s STOP gate", 0, "gate: sent SIGSTOP"),
    Row(
      "send gate shut --timeout 200ms", 124,
      "\(TopologyClientError.timedOut("after 200 ms")): node 'gate' is running"
    ),
    Row(
      "restart gate --timeout 200ms", 124,
      "\(TopologyClientError.timedOut("after 200 ms")), waiting for 'gate'"),
    Row("kill gate", 0, "gate: sent SIGKILL"),
    Row("wait gate=open --timeout 60s", 0, "gate: open"),
    Row("config ward.yaml", 0, ""),
    Row("version", 0, "orchestrator "),
    Row("help send", 0, ""),
  ]

  /// The verbs after a kill of the orchestrator, while the nodes continue to run.
  private static let orphaned =
    [
      "ps", "status", "send button press", "wait button=pressed", "why gate", "kill gate",
      "stop gate", "restart gate", "monitor", "pipe ls", "apply ward.yaml", "probe",
    ].map { Row($0, 3, $0 == "status" ? "" : "'orchestrator down -p ward'") }
    + [
      Row("ls", 0, "orphaned: 5 nodes"),
      Row("logs button -n 1", 0, "button | "),
      Row("journal button", 0, "pressed"),
      Row("up --wait ward.yaml", 0, "ward: running, 5 nodes adopted, orchestrator pid"),
      Row("down --timeout 60s", 0, "ward: down"),
    ]

  @Test(
    "Verbs on a running topology have the documented outcomes, even with hung or orphaned nodes"
  )
  func outcomesOfRunning() async throws {
    try await DetachedTopology.with(Self.busy) { ward in
      for row in Self.usage + Self.running { try await check(row, ward.tool) }
      try await ward.killOrchestrator()
      for row in Self.orphaned { try await check(row, ward.tool) }
    }
  }
}
