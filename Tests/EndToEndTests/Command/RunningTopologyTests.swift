import Glibc
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing
import orchestrator

/// A chain of three relays that runs while a test queries and controls it.
final class RunningRelay {
  let command: Command
  private var child: ChildProcess
  private var hasEnded = false

  static let file = """
    topology: relay
    program: nodes
    nodes: { n1: { machine: Relay }, n2: { machine: Relay }, still: { constant: closed } }
    pipes: [{ from: n1.out, to: n2.in }]
    timeouts: { stop: 60s }
    """

  init() throws {
    command = try Command()
    // Ensures that the run ends with the test, however the test ends.
    child = try command.start(
      shell: "cat > relay.yaml <<'END'\n\(Self.file)\nEND\n"
        + "exec orchestrator run relay.yaml --plain > run.out 2> run.err")
    let ready = try command.run(
      shell:
        "for i in {1..6000}; do orchestrator status > status 2>&1 && exit 0; sleep 0.02; done; "
        + "cat status run.out run.err; exit 1")
    #expect(ready.exit == .exited(code: 0), "\(ready.output)")
  }

  /// Runs a line of bash.
  func run(_ line: String) throws -> Command.Result { try command.run(shell: line) }

  /// Stops the run, or waits until the run ends by itself.
  func end(byItself: Bool = false) -> ProcessExit? {
    if !byItself { child.signal(.terminate) }
    hasEnded = true
    return child.wait()
  }

  deinit {
    if !hasEnded {
      child.signal(.kill)
      _ = child.wait()
    }
    child.closePipes()
    command.remove()
  }
}

@Suite("The command on a running topology", .timed, .blocking)
struct RunningTopologyTests {
  /// A command line, its exit code, its complete standard output, and a part of its standard error.
  private func unknownNode(_ name: String) -> String {
    "\(TopologyClientError.unknownNode(name, known: ["n1", "n2", "still"]))"
  }

  private static func unknownState(_ name: String, of node: String, _ known: [String]) -> String {
    CaseMismatch.unknownCase(name, known: known).text(noun: "state", owner: "node '\(node)'")
  }

  private typealias Line = (text: String, code: Int32, output: String, error: String)

  private func expect(_ lines: [Line], of relay: RunningRelay) throws {
    for line in lines {
      let result = try relay.run(line.text)
      #expect(result.exit == .exited(code: line.code), "\(line.text): \(result.error)")
      #expect(result.output == line.output, "\(line.text)")
      #expect(
        line.error.isEmpty ? result.error.isEmpty : result.error.contains(line.error),
        "\(line.text): \(result.error)")
    }
  }

  @Test("'send' checks events before it sends them, and 'wait' waits for the resulting states")
  func sendAndWait() throws {
    let relay = try RunningRelay()
    let token = #"'{"token":{"n":7}}'"#
    try expect(
      [
        ("orchestrator send n1 token", 2, "", #"'{"token":{"n":1}}'"#),
        ("orchestrator send n1 tokn", 2, "", Suggestion.hint("token")),
        ("orchestrator send n3 token", 2, "", unknownNode("n3")),
        ("orchestrator send still go", 2, "", TopologyClientError.constantProblem),
        (
          "orchestrator send n1 \(token)", 0,
          #"n1: {"passing":{"count":1,"n":7}}  (version 1)"# + "\n", ""
        ),
        (
          "orchestrator wait n1=passing 'n2={\"passing\":{\"n\":7,\"count\":1}}' --timeout 60s", 0,
          "n1: passing(count: 1, n: 7)  (version 1)\nn2: passing(count: 1, n: 7)  (version 1)\n", ""
        ),
        (
          "orchestrator send n2 \(token) -o json", 0,
          #"{"event":{"token":{"n":7}},"node":"n2","outcome":"accepted","#
            + #""state":{"passing":{"count":2,"n":7}},"version":2}"# + "\n", ""
        ),
        ("orchestrator wait still=closed n2=passing -o json | wc -l", 0, "1\n", ""),
        ("orchestrator wait n2=idel", 2, "", Suggestion.hint("idle")),
        ("orchestrator wait still=open", 2, "", Self.unknownState("open", of: "still", ["closed"])),
        (
          "orchestrator wait n1=idle --timeout 50ms", 124, "",
          "\(TopologyClientError.timedOut("after 50 ms")): 'n1' is in passing(count: 1, n: 7)"
        ),
      ], of: relay)
    #expect(relay.end() == .exited(code: 0))
  }

  @Test("'stop', 'start', 'restart' and 'kill' control a node, and 'status' reports the result")
  func steer() throws {
    let relay = try RunningRelay()
    try expect(
      [
        ("orchestrator status >/dev/null", 0, "", ""),
        ("orchestrator stop n1", 0, "n1: stopped\n", ""),
        ("orchestrator status >/dev/null", 1, "", ""),
        ("orchestrator status n2 >/dev/null", 0, "", ""),
        (
          "orchestrator send n1 '{\"token\":{\"n\":1}}'", 1, "",
          "\(TopologyClientError.nodeDown("n1", "stopped"))"
        ),
        ("orchestrator kill n1", 1, "", "\(CommandError.noProcess(of: "n1", phase: "stopped"))"),
        ("orchestrator wait n1=idle --timeout 50ms", 124, "", "'n1' is stopped, not in idle"),
        (
          "orchestrator start n1 n2 | sed 's/[0-9]*$//'", 0,
          "n1: running, pid \nn2: running, pid \n", ""
        ),
        ("orchestrator restart n2 | sed 's/[0-9]*$//'", 0, "n2: running, pid \n", ""),
        ("orchestrator kill n2 | sed 's/[0-9]*$//'", 0, "n2: sent SIGKILL to pid \n", ""),
        (
          "for i in {1..500}; do orchestrator ps -o jsonl "
            + "| grep -q '\"node\":\"n2\".*\"restarts\":2,\"running\":true' && break; sleep 0.02; done; "
            + "orchestrator ps -q", 0, "n1\nn2\nstill\n", ""
        ),
        ("orchestrator stop n4", 2, "", unknownNode("n4")),
        (
          "orchestrator ps -p rela", 3, "",
          "\(TopologyClientError.notRunning("rela", running: ["relay"]))"
        ),
      ], of: relay)
    #expect(relay.end() == .exited(code: 0))
  }

  @Test("'ps' shows only the named nodes, and the last line of 'run' says how the run ended")
  func processes() throws {
    let relay = try RunningRelay()
    try expect(
      [
        ("orchestrator ps -q still n1", 0, "still\nn1\n", ""),
        ("orchestrator ps n2 | cut -d ' ' -f 1", 0, "NODE\nn2\n", ""),
        ("orchestrator ps n4 n1", 2, "", unknownNode("n4")),
        ("orchestrator dead-letters n1 -o json", 0, "[]\n", ""),
        ("orchestrator dead-letters n1", 0, "", "node 'n1' "),
      ], of: relay)
    let record = try JSONValue(parsing: relay.run("orchestrator ps n1 -o jsonl").output.utf8)
    // A node that has used less than one tick of CPU time reports 0, which is written without a
    // fraction.
    let seconds: Double
    switch record["cpuSeconds"] {
    case .integer(let whole)?: seconds = Double(whole)
    case .number(let number)?: seconds = number
    default:
      Issue.record("\(record.text)")
      return
    }
    #expect(seconds >= 0 && seconds < 60)
    #expect(try #require(record["memoryBytes"]?.integer) > 1_000_000)
    #expect(relay.end() == .exited(code: 0))
    // The last line of 'run' says how the run ended.
    let lines = try relay.run("cat run.out").output.split(separator: "\n")
    #expect(lines.last == "relay: stopped")
    #expect(lines.filter { $0 == "relay: stopped" }.count == 1)
    #expect(lines.contains("n1: stopped"))
  }

  @Test("Completion in bash offers nodes and events of the running topology or the local file")
  func completion() throws {
    let relay = try RunningRelay()
    let command = relay.command
    #expect(try command.complete("send", "") == ["n1", "n2", "still"])
    #expect(try command.complete("send", "n1", "") == ["token"])
    #expect(try command.complete("send", "n1", "x") == [])
    #expect(try command.complete("send", "still", "") == [])
    #expect(try command.complete("-p", "relay", "why", "n2", "t") == ["token"])
    #expect(try command.complete("send", "-p", "relay", "--timeout", "1s", "n1", "") == ["token"])
    #expect(try command.complete("send", "--topology", "=", "other", "n1", "") == [])
    #expect(try command.complete("send", "n1", "token", "") == [])
    #expect(try command.complete("logs", "n1", "n") == ["n1", "n2"])
    let file = """
      topology: doors
      program: nodes
      nodes: { front: { machine: ElevatorDoor }, back: { machine: LiftDoor } }
      """
    _ = try relay.run("cat > doors.yaml <<'END'\n\(file)\nEND")
    let events = [
      "personsHaveEntered", "closeButtonWasPressed", "openButtonWasPressed", "doorHasLocked",
    ]
    #expect(try command.complete("describe", "--file", "doors.yaml", "fr") == ["front"])
    #expect(relay.end() == .exited(code: 0))
    #expect(try command.complete("send", "front", "") == [])
    _ = try relay.run("mv doors.yaml topology.yaml")
    #expect(try command.complete("send", "") == ["front", "back"])
    #expect(try command.complete("send", "front", "") == events)
    #expect(try command.complete("send", "front", "close") == ["closeButtonWasPressed"])
  }

  @Test("'monitor' shows the current states, then every change, and ends with the topology")
  func monitor() throws {
    let relay = try RunningRelay()
    var child = try relay.command.start(shell: "exec orchestrator monitor -o jsonl n2")
    defer { child.closePipes() }
    #expect(
      Command.text(of: child.outputDescriptor) { $0.hasSuffix("\n") }.contains(#""state":"idle""#))
    _ = try relay.run("orchestrator send n1 '{\"token\":{\"n\":5}}'")
    let firstOutput = Command.text(of: child.outputDescriptor) {
      $0.contains("passing") && $0.hasSuffix("\n")
    }
    let record = try JSONValue(parsing: try #require(firstOutput.split(separator: "\n").last).utf8)
    #expect(record["cause"] == "n1.out->n2.in" && record["version"] == 1)
    #expect(record["state"]?.caseText == "passing(count: 1, n: 5)")
    // The current states are in the order of the file.
    let first = try relay.run("orchestrator monitor -n 3 | cut -d ' ' -f 2")
    #expect(first.output == "n1\nn2\nstill\n" && first.error.isEmpty)
    let closed = try relay.run("(orchestrator monitor n2; echo $? > code) | head -n 1; cat code")
    #expect(closed.output.hasSuffix("(n1.out->n2.in)\n0\n"))
    #expect(try relay.run("orchestrator down").output == "relay: down\n")
    #expect(child.wait() == .exited(code: 0))
    #expect(relay.end(byItself: true) == .exited(code: 0))
  }

  @Test("'down --force' ends a topology whose node hangs")
  func force() throws {
    let relay = try RunningRelay()
    try expect(
      [
        ("orchestrator kill -s STOP n1 > pid", 0, "", ""),
        (
          "orchestrator down --timeout 2s", 124, "",
          "'orchestrator down --force' kills its processes"
        ),
        ("orchestrator down --force", 0, "relay: down\n", ""),
        ("orchestrator down", 3, "", "\(TopologyClientError.noneRunning)"),
        ("kill -0 $(grep -o '[0-9]*$' pid)", 1, "", "No such process"),
      ], of: relay)
    #expect(relay.end(byItself: true) == .exited(code: 130))
  }

  @Test("'check' reports every error with its location, and counts a valid file's nodes and pipes")
  func check() throws {
    let relay = try RunningRelay()
    try expect(
      [
        (
          "orchestrator check relay.yaml", 0, "relay.yaml: ok: 3 nodes, 1 pipe, 1 warning\n",
          "relay.yaml:3:38: warning: node 'n2': out-port 'out' is not connected"
        ),
        (
          "sed s/Relay/Relai/ relay.yaml > bad.yaml; orchestrator check bad.yaml", 2, "",
          "bad.yaml:3:25: error: node 'n1': "
        ),
        (
          "sed 's/.{ from/[{ frm: n1 }, { from/; s/n2.in/n2.on/' relay.yaml > both.yaml; "
            + "orchestrator check both.yaml 2> errors.txt; echo $?; grep -cF '[unknown-port]' errors.txt; "
            + "grep -cF '[unknown-key]' errors.txt",
          0,
          "2\n1\n1\n", ""
        ),
        ("orchestrator check --file-only bad.yaml", 0, "bad.yaml: ok: 3 nodes, 1 pipe\n", ""),
        ("orchestrator check none.yaml -o json | grep -c unreadable-file", 0, "1\n", ""),
        ("orchestrator config none.yaml", 2, "", "[unreadable-file]"),
        (
          "orchestrator config relay.yaml > a.yaml; orchestrator config a.yaml | cmp - a.yaml", 0,
          "",
          ""
        ),
      ], of: relay)
    #expect(relay.end() == .exited(code: 0))
  }
}
