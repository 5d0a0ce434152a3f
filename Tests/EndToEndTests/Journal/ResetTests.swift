import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The verb 'reset'", .timed)
struct ResetTests {
  /// Runs the command on a terminal, and types this answer. The program `script` provides the
  /// terminal.
  private func atTerminal(
    _ tool: CommandLineTool, _ command: String, answer: String
  ) async throws -> CommandLineTool.Result {
    try await tool.result(
      of: tool.start(
        program: "/bin/sh",
        [
          "-c",
          "echo \(answer) | script -qec '\(CommandLineTool.orchestrator) \(command)' /dev/null",
        ]))
  }

  @Test("'reset' refuses a composite while a participant is in doubt about the composite's event")
  func promises() async throws {
    let rules = "pair:commit.before=stop@1/1"
    var pair = Parties.pair(environment: [FailpointCounter.rulesVariable: rules])
    // The first stop exceeds this timeout. The second stop must succeed within the timeout, even on
    // a busy machine.
    pair.timeouts.stop = .seconds(5)
    try await withTopology(pair) { topology in
      let caller = try TopologyClient(
        topology: topology.topology, control: topology.control,
        answerTimeout: TopologyHarness.clientTimeout)
      let reply = Task { try await caller.synchronize("pair", Party.Event.meet) }
      try await topology.expectLog("right", contains: "\(InDoubtReport.Cause.silence)")
      try await topology.expectLog("left", contains: "\(InDoubtReport.Cause.silence)")
      // A closed client does not repeat its request.
      caller.close()
      await #expect(throws: TopologyClientError.self) { try await reply.value }
      // The coordinator is suspended, so the stop kills it.
      await #expect(throws: TopologyClientError.self) {
        try await topology.stop("left", "right", "pair")
      }
      let tool = CommandLineTool(beside: topology)
      let refused = try await tool.run("reset", "pair", code: 1)
      #expect(
        refused.error.contains(
          "node 'left' is in doubt about synchronized event 1.1, \"meet\" of composite 'pair'"),
        "\(refused)")
      let one = try await tool.run("reset", "pair", "left", code: 1)
      #expect(one.error.contains("node 'right' is in doubt"), "\(one)")

      // Both participants learn that the transaction was aborted, and record it when they stop.
      try await topology.start("left", "right", "pair")
      for name in ["left", "right"] {
        try await topology.expectLog(
          name,
          contains: "\(InDoubtReport.resolved(TransactionID(epoch: 1, sequence: 1), .aborted))")
      }
      try await topology.stop("left", "right", "pair")
      let reset = try await tool.run("reset", "pair", code: 0)
      #expect(reset.output.hasPrefix("pair: deleted "), "\(reset)")
      #expect(!reset.output.contains("not acknowledged by all"), "\(reset)")
      try await topology.start("left", "right", "pair")
      #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted)
    }
  }

  @Test("'reset' deletes state, outbox, postponed events and dead letters of stopped nodes")
  func forgets() async throws {
    try await withTopology(Visitors.topology(.postpone)) { topology in
      for _ in 1...2 { try await topology.send("button", Button.Event.press) }
      try await topology.expectStatus(of: "gate", "three that wait") {
        $0.status?.ins.first?.waiting == 3
      }
      let tool = CommandLineTool(beside: topology)
      let running = try await tool.run("reset", "button", "gate", code: 1)
      #expect(running.output == "")
      #expect(running.error.contains("node 'button' is running; only nodes that do not run"))
      #expect(running.error.contains("'orchestrator stop button gate'"))

      try await topology.stop("gate")
      try await topology.send("button", Button.Event.press)
      try await topology.stop("button")
      let reset = try await tool.run("reset", "gate", "button", "gate", code: 0)
      #expect(
        reset.output == """
          gate: deleted version 0 in state shut(passed: 0), 3 postponed events
          button: deleted version 3 in state pressed(times: 3), 1 event in the outbox

          """)
      for node in ["gate", "button"] {
        let file = try JournalFile(of: node, in: topology)
        #expect(try file.contents() == [".step": []])
        let gone = try await tool.run("journal", node, code: 1)
        #expect(gone.reports(JournalError.missing(path: file.path, node: node)), "\(gone)")
      }
      let again = try await tool.run("reset", "gate", code: 0)
      #expect(again.output == "gate: has no journal\n")
      try await topology.start("gate", "button")
      try await topology.expectStatus(of: "button", "a new start") { $0.status?.version == 0 }
      try await topology.send("gate", Gate.Event.open)
      try await topology.expect("gate", Gate.State.open(passed: 1))
    }
  }

  @Test(
    "'reset --all' works on a stopped topology, and the next start begins with the initial states")
  func down() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(Visitors.topology().yaml, to: "visitors.yaml")
    try await tool.run("up", "--wait", "visitors.yaml", code: 0)
    try await tool.run("send", "button", "press", code: 0)
    try await tool.run("wait", "button=pressed", code: 0)
    try await tool.run("down", code: 0)
    // Without a reset, the state is kept.
    try await tool.run("up", "--wait", "visitors.yaml", code: 0)
    try await expectStatus("pressed(times: 1)  (version 1)", tool)
    // The event that was in flight when the topology went down reaches the gate now.
    let areTaken: Bool? = try await poll(within: .seconds(20)) {
      let deadLetters = try await tool.run("dead-letters", "gate", "-o", "jsonl")
      return deadLetters.output.split(separator: "\n").count == 2 ? true : nil
    }
    #expect(areTaken == true)
    try await tool.run("down", code: 0)

    let reset = try await tool.run("reset", "--all", "-p", "visitors", code: 0)
    #expect(reset.output.hasPrefix("button: deleted version 1 in state pressed(times: 1)"))
    #expect(
      reset.output.contains("gate: deleted version 0 in state shut(passed: 0), 2 dead letters"))
    try await tool.run("up", "--wait", "visitors.yaml", code: 0)
    try await expectStatus("pressed(times: 0)  (version 0)", tool)
    try await tool.run("down", code: 0)
  }

  /// Waits until 'status' shows this text for the button.
  private func expectStatus(_ text: String, _ tool: CommandLineTool) async throws {
    var last: CommandLineTool.Result?
    let isTold: Bool? = try await poll(within: .seconds(20)) {
      last = try await tool.run("status", "button")
      return last?.output.contains(text) == true ? true : nil
    }
    #expect(isTold == true, "\(String(describing: last))")
  }

  @Test("'reset' on a terminal asks before it deletes unfinished work, and proceeds only on yes")
  func asks() async throws {
    try await withTopology(Visitors.topology()) { topology in
      try await topology.expectStatus(of: "gate", "a letter") { $0.status?.deadLetters == 1 }
      try await topology.stop("gate", "button")
      let tool = CommandLineTool(beside: topology)
      let file = try JournalFile(of: "gate", in: topology)
      for answer in ["n", "''"] {
        let no = try await atTerminal(tool, "reset gate", answer: answer)
        #expect(no.code == 1, "\(no)")
        #expect(no.output.contains("1 dead letter"), "\(no)")
        #expect(no.output.contains("Delete these journals permanently? [y/N]"), "\(no)")
        #expect(no.output.contains("nothing was deleted"), "\(no)")
        #expect(FileSystem.exists(file.path))
      }
      // The button has no unfinished work.
      let button = try await atTerminal(tool, "reset button", answer: "n")
      #expect(button.code == 0, "\(button)")
      #expect(!button.output.contains("[y/N]"), "\(button)")
      let yes = try await atTerminal(tool, "reset gate", answer: "y")
      #expect(yes.code == 0, "\(yes)")
      #expect(!FileSystem.exists(file.path))
      try await topology.start("gate")
      try await topology.stop("gate")
      let unasked = try await atTerminal(tool, "reset --yes gate", answer: "n")
      #expect(unasked.code == 0, "\(unasked)")
    }
  }

  @Test(
    "If 'reset' has wrong arguments, the error names the correct arguments",
    arguments: [
      ([], 2, "orchestrator reset --help"),
      (["gate", "--all"], 2, "orchestrator reset --help"),
      (["gaet"], 2, Suggestion.hint("gate")),
      (["-p", "zoo", "gate"], 3, "topology 'zoo' "),
    ] as [([String], Int32, String)])
  func usage(arguments: [String], code: Int32, error: String) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let directories = try RuntimeDirectories(topology: "visitors", roots: tool.directory.roots)
    try FileSystem.makeDirectories(directories.logs)
    try tool.directory.write("", to: "state/visitors/logs/gate.log")
    let result = try await tool.result(of: tool.start(["reset"] + arguments))
    #expect(result.code == code, "\(result)")
    #expect(result.error.contains(error), "\(result)")
    #expect(result.output == "")
  }
}
