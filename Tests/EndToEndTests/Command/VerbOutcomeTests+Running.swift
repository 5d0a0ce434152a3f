import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

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

  private static let usage = [
    Row("ls -p ward", 2, "orchestrator ls --help"),
    Row("start", 2, "orchestrator start --help"),
    Row("stop", 2, "orchestrator stop --help"),
    Row("kill", 2, "orchestrator kill --help"),
    Row("kill -s NOPE gate", 2, "invalid value 'NOPE' for -s"),
    Row("send", 2, "orchestrator send --help"),
    Row("send button", 2, "EVENT is missing"),
    Row("send button press --timeout 1", 2, "has no unit"),
    Row("wait", 2, "orchestrator wait --help"),
    Row("wait button", 2, "'button' is not NODE=STATE"),
    Row("wait both=x", 2, "composite 'both' has no projection and therefore no state 'x'"),
    Row("logs -n x", 2, "invalid value 'x' for -n"),
    Row("logs --since never", 2, "invalid value 'never' for --since"),
    Row("monitor --tap nope", 2, "no such pipe 'nope'; the pipes are 'p1', 'p2'"),
    Row("monitor --steps --tap p1", 2, "cannot be used together"),
    Row("ui", 2, "'ui' requires a terminal"),
    Row("trace --for x", 2, "invalid value 'x' for --for"),
    Row("describe nobody", 2, "no such node 'nobody'"),
    Row("why gate nope", 2, "machine 'Gate' has no event 'nope'"),
    Row("why both nope", 2, "composite 'both' has no event 'nope'"),
    Row("dead-letters", 2, "orchestrator dead-letters --help"),
    Row("letters button bogus", 2, "invalid value 'bogus' for list|show|resend|drop"),
    Row("letters src drop", 2, "orchestrator dead-letters --help"),
    Row("letters src show 99", 2, "node 'src' has no dead letter 99"),
    Row("letters src resend 99", 2, "node 'src': no such dead letter 99"),
    Row("letters src drop 99", 2, "node 'src': no such dead letter 99"),
    Row("pipe info nope", 2, "no such pipe 'nope'"),
    Row("pipe send nope press", 2, "no such pipe 'nope'"),
    Row("pipe send p1 nope", 2, "machine 'Button' has no event 'nope'"),
    Row("send both nope", 2, "composite 'both' has no event 'nope'"),
    Row("send both pass", 2, "composite 'both' does not synchronize 'pass'"),
    Row("send gate open", 2, "'open' is synchronized; send it to composite 'both'"),
    Row("run", 2, "orchestrator run --help"),
    Row("submit ward.yaml", 2, "'submit' requires --deployment FILE"),
    Row("check", 2, "orchestrator check --help"),
    Row("check --time 1s ward.yaml", 2, "--time requires --explore"),
    Row("check --explore nofile.yaml", 2, "nofile.yaml: error: no such file"),
    Row("test nofile", 2, "use --in-process"),
    Row("config nofile.yaml", 2, "nofile.yaml: error: no such file"),
    Row("export bogus ward.yaml", 2, "invalid value 'bogus' for FORMAT"),
    Row("export promela nofile.yaml", 2, "nofile.yaml: error: no such file"),
    Row("agent", 2, "orchestrator agent --help"),
    Row("init", 2, "orchestrator init --help"),
    Row("schema x", 2, "orchestrator schema --help"),
    Row("completion ksh", 2, "invalid value 'ksh' for SHELL"),
    Row("version x", 2, "orchestrator version --help"),
    Row("help nope", 2, "orchestrator --help"),
  ]

  /// The verbs on a running topology, in order: each row depends on the rows before it.
  private static let running = [
    Row("up ward.yaml", 0, "ward: already running with the same file"),
    Row("probe --ready", 0, "ward: running"),
    Row("send src pass", 1, "node 'src' refused pass"),
    Row("why both open", 0, "src"),
    Row("send both open", 0, "both: open committed as"),
    Row("why gate open", 4, "the state has no transition for the event"),
    Row("send both open", 1, "composite 'both' refused open"),
    Row("wait button=pressed --timeout 60s", 0, "button: pressed"),
    Row("monitor -n 1 button", 0, "button"),
    Row("describe both", 0, ""),
    Row("why gate", 0, ""),
    Row("journal both", 0, ""),
    Row("pipe send p1 press", 0, "button: "),
    Row(#"send frag {"exit":{"code":3}}"#, 1, "the event is now a dead letter"),
    Row("letters frag", 0, "the event's step ended the node's process 3 times in a row"),
    Row("letters frag show 1", 0, "(version 0)"),
    Row("letters frag drop 1", 0, "frag: dead letter 1 dropped"),
    Row("stop gate", 0, "gate: stopped"),
    Row("send both open", 1, "participant 'gate' is not running; nothing was applied"),
    Row("kill gate", 1, "node 'gate' has no process: the node is stopped"),
    Row("wait gate=open --timeout 50ms", 124, "timed out after 50 ms: 'gate' is stopped"),
    Row("status", 1, ""),
    Row("start gate", 0, "gate: running, pid "),
    Row("stop both", 0, "both: stopped"),
    Row("restart both", 0, "both: running, pid "),
    // The node's process is suspended, so the client learns only that the timeout has passed.
    Row("kill -s STOP gate", 0, "gate: sent SIGSTOP"),
    Row(
      "send gate shut --timeout 200ms", 124,
      "timed out after 200 ms: node 'gate' is running, but accepted no event: no answer from its inbox"
    ),
    Row("restart gate --timeout 200ms", 124, "timed out after 200 ms, waiting for 'gate'"),
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
    ].map { Row($0, 3, $0 == "status" ? "" : "the orchestrator of 'ward' was killed") }
    + [
      Row("ls", 0, "orphaned: 5 nodes are still running"),
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
