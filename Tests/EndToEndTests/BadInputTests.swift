import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import Testing

@Suite("Bad input")
struct BadInputTests {
  /// A file, and what `run` must say to it.
  struct Case: Sendable, CustomTestStringConvertible {
    var what: String
    var yaml: String
    var error: String
    var testDescription: String { what }

    init(_ what: String, _ nodes: String, _ error: String, pipes: String = "") {
      self.what = what
      self.error = error
      yaml = """
        topology: bad
        program: TestNodes
        nodes:
        \(nodes.split(separator: "\n").map { "  \($0)" }.joined(separator: "\n"))
        \(pipes.isEmpty ? "" : "pipes:\n  - \(pipes)")
        """
    }

    init(_ what: String, file: String, _ error: String) {
      self.what = what
      self.error = error
      yaml = file
    }
  }

  private static func withComposite(_ composite: String) -> String {
    """
    topology: bad
    program: TestNodes
    nodes: { a: { machine: Button }, b: { machine: Gate } }
    composites: { both: \(composite) }
    """
  }

  private static let two = "a: { machine: Button }\nb: { machine: Gate }"

  static let files: [Case] = [
    Case(
      "not YAML", file: "topology: bad\nnodes: { a: [\n",
      "bad.yaml:3:1: error: "),
    Case("an empty file", file: "", "bad.yaml:1:1: error: the file is empty"),
    Case(
      "an unknown key", "a: { machin: Button }",
      "bad.yaml:4:8: error: node 'a' has no key 'machin'"),
    Case(
      "an unknown key that is nearly a known one", "a: { machine: Button, requierd: true }",
      "Did you mean 'required'? [unknown-key]"),
    Case(
      "a node named twice", "a: { machine: Button }\na: { machine: Gate }",
      "bad.yaml:5:3: error: "),
    Case(
      "an unknown machine", "a: { machine: Buton }",
      "bad.yaml:4:17: error: node 'a': program 'TestNodes' has no machine 'Buton'"),
    Case(
      "an unknown port", "a: { machine: Source }\nb: { machine: Sink }",
      "has no out-port 'outt'", pipes: "{ from: a.outt, to: b.in }"),
    Case(
      "an unknown state", two, "has no state 'presed'",
      pipes: "{ from: a, when: presed, to: b, send: pass }"),
    Case(
      "an unknown event", two, "has no event 'pas'",
      pipes: "{ from: a, when: pressed, to: b, send: pas }"),
    Case(
      "a payload that does not fit", "a: { machine: Button }\nb: { machine: Sink }",
      "[type-mismatch]",
      pipes: "{ from: a, when: pressed, to: b, send: { number: { n: much } } }"),
    Case(
      "a payload field that is missing", "a: { machine: Button }\nb: { machine: Sink }",
      "[missing-field]", pipes: "{ from: a, when: pressed, to: b, send: number }"),
    Case(
      "a pipe between unlike event types", "a: { machine: Source }\nb: { machine: Blob }",
      "[unlike-events]", pipes: "{ from: a.out, to: b.in }"),
    Case(
      "a cycle in depends_on",
      "a: { machine: Button, depends_on: [b] }\nb: { machine: Button, depends_on: [a] }",
      "[dependency-cycle]"),
    Case(
      "a state in depends_on that there is not",
      "a: { machine: Button }\nb: { machine: Button, depends_on: { a: { state: presed } } }",
      "bad.yaml:5:51: error: node 'b': node 'a' has no state 'presed'; it has 'pressed'. Did you mean "
        + "'pressed'? [unknown-state]"),
    Case(
      "parameters that do not decode", "a: { machine: Sink, parameters: { work: hard } }",
      "[bad-parameters]"),
    Case(
      "a parameter that does not exist", "a: { machine: Sink, parameters: { wrok: 1 } }",
      "[bad-parameters]"),
    Case(
      "a program that is missing", "a: { machine: Button, program: no-such-program }",
      "there is no program 'no-such-program'"),
    Case(
      "a program that may not be executed", "a: { machine: Button, program: ./bad.yaml }",
      "is not executable"),
    Case(
      "a program that is no node program", "a: { machine: Button, program: /bin/true }",
      "is it a node program"),
    Case(
      "a program that fails at once", "a: { machine: Button, program: /bin/false }",
      "ended with exit code 1"),
    Case(
      "a program that is a directory", "a: { machine: Button, program: /tmp }",
      "'/tmp' is a directory; name the program in it"),
    Case(
      "a parameter that the machine has no use for",
      "a:\n  machine: Sink\n  parameters:\n    work: -1",
      "bad.yaml:7:13: error: node 'a': machine 'Sink' cannot run: parameter 'work' must be 0 or more, "
        + "not -1 [bad-parameters]"),
    Case(
      "a number that is too large",
      "a: { machine: Sink, parameters: { work: 99999999999999999999 } }",
      "bad.yaml:4:43: error: node 'a': 'parameters.work' cannot be 99999999999999999999: "),
    Case(
      "a node whose name is a number", "1: { machine: Button }",
      "bad.yaml:4:3: error: node '1': a name is text"),
    Case(
      "a variable that is not set", "a: { machine: Button, environment: { A: ${PR_TEST_NONE} } }",
      "bad.yaml:4:43: error: variable 'PR_TEST_NONE' is not set"),
    Case(
      "a composite of a node that does not exist",
      file: withComposite("{ components: [a, b, c] }"), "there is no node or composite 'c'"),
    Case(
      "a synchronized event that one node alone takes",
      file: withComposite("{ components: [a, b], synchronize: [press] }"),
      "[too-few-participants]"),
    Case(
      "a composite state that the program does not register",
      file: withComposite("{ components: [a, b], projection: Both }"),
      "has no composite state 'Both'"),
  ]

  @Test("a bad file is answered with the place and the reason, and exit code 2", arguments: files)
  func badFile(_ bad: Case) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(bad.yaml, to: "bad.yaml")
    for verb in ["check", "run", "up"] {
      let result = try await tool.run(verb, "bad.yaml")
      #expect(result.code == 2, "\(verb): \(result)")
      #expect(result.error.contains(bad.error), "\(verb): \(result)")
      #expect(result.error.contains("bad.yaml"), "\(verb): \(result)")
      #expect(result.output == "", "\(verb): \(result)")
    }
    #expect(tool.directory.processes.isEmpty)
    #expect(tool.directory.sockets.isEmpty)
  }

  @Test("errors of the file and of its wiring are told at once, in the order of the file")
  func allAtOnce() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let yaml = """
      topology: bad
      program: TestNodes
      nodes:
        a: { machine: Buton, durability: proces }
        b: { machine: Gate, requierd: true }
      pipes:
        - { from: b, when: opne, to: a, send: press }
        - { from: b, when: open, to: c, send: press }
      """
    let path = try tool.directory.write(yaml, to: "bad.yaml")
    let result = try await tool.run("check", path)
    #expect(result.code == 2)
    let codes = result.error.split(separator: "\n").compactMap { line in
      line.split(separator: "[").last.map { String($0.dropLast()) }
    }
    #expect(
      codes == ["unknown-machine", "bad-value", "unknown-key", "unknown-state", "unknown-node"],
      "\(result)")
  }

  @Test("a program that writes without end is told as such, and not as slow")
  func flood() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let path = try tool.directory.write(
      Case("", "a: { machine: Button, program: /usr/bin/yes }", "").yaml, to: "bad.yaml")
    let result = try await tool.run("check", path)
    #expect(result.code == 2)
    #expect(
      result.error.contains(
        "bad.yaml:4:34: error: '/usr/bin/yes describe' wrote more than 64 MiB, which is no "
          + "description; is it a node program"), "\(result)")
  }

  @Test("a misspelt port is one error, and no port without a pipe besides")
  func misspeltPort() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let bad = Case(
      "", "a: { machine: Source }\nb: { machine: Sink }", "", pipes: "{ from: a.outt, to: b.in }")
    let path = try tool.directory.write(bad.yaml, to: "bad.yaml")
    let result = try await tool.run("check", path)
    #expect(result.code == 2)
    #expect(result.error.split(separator: "\n").count == 1, "\(result)")
  }

  @Test("parameters with which a program crashes are told for their node, and spoil no other")
  func crashingParameters() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    // Of several machines it describes one at most, as if it died of the others.
    let program = """
      #!/bin/sh
      [ "$1" = describe ] || exit 1
      case "$*" in *'"work":7'*) echo "out of work" >&2; exit 3 ;; esac
      exec '\(CommandLineTool.products)/TestNodes' "$@"
      """
    try tool.directory.write(program, to: "fragile", mode: 0o700)
    let path = try tool.directory.write(
      """
      topology: fragile
      program: ./fragile
      nodes:
        a: { machine: Sink, parameters: { work: 7 } }
        b: { machine: Sink, parameters: { work: 8 } }
        c: { machine: Sink, parameters: { work: -8 } }
      """, to: "fragile.yaml")
    let lines = try await tool.run("check", path).error.split(separator: "\n")
    #expect(lines.count == 2, "\(lines)")
    #expect(
      lines.first?.contains("fragile.yaml:4:35: error: node 'a': machine 'Sink' cannot run: ")
        == true)
    #expect(lines.first?.hasSuffix("ended with exit code 3: out of work [bad-parameters]") == true)
    #expect(lines.last?.contains("fragile.yaml:6:43: error: node 'c': ") == true, "\(lines)")
  }

  @Test("of a pipe in place of a file all is read, as its writer writes it")
  func slowPipe() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let path = tool.directory.path + "/pipe"
    #expect(mkfifo(path, 0o600) == 0)
    let writer = open(path, O_RDWR | O_CLOEXEC)
    #expect(writer >= 0)
    let parts = ["topology: slow\nprogram: TestNodes\n", "nodes: { a: { machine: Button } }\n"]
    try FileSystem.write(Array(parts[0].utf8), to: writer, path: path)
    let check = try tool.start(["check", "pipe"])
    let isRead = try await poll(every: .milliseconds(10), within: .seconds(20)) {
      var waiting: Int32 = 0
      return ioctl(writer, UInt(FIONREAD), &waiting) == 0 && waiting == 0 ? true : nil
    }
    #expect(isRead == true)
    try FileSystem.write(Array(parts[1].utf8), to: writer, path: path)
    close(writer)
    let result = try await tool.result(of: check)
    #expect(result.output == "pipe: ok: 1 node, 0 pipes\n", "\(result)")
  }

  @Test("a file that is missing, a directory, or unreadable is told as such")
  func unreadable() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let missing = try await tool.run("run", "none.yaml")
    #expect(missing.code == 2)
    #expect(
      missing.error
        == "none.yaml: error: there is no such file; check the path [unreadable-file]\n")
    let directory = try await tool.run("run", ".")
    #expect(directory.code == 2)
    #expect(directory.error.contains("this is a directory"))
    if geteuid() != 0 {
      try tool.directory.write("topology: x", to: "secret.yaml", mode: 0)
      let secret = try await tool.run("run", "secret.yaml")
      #expect(secret.code == 2)
      #expect(secret.error.contains("may not be read"))
    }
  }

  /// A program that describes itself well, and then does not do as it should.
  private static func program(_ behaviour: String) -> String {
    """
    #!/bin/sh
    [ "$1" = describe ] && exec TestNodes "$@"
    \(behaviour)
    """
  }

  private static let impostor = """
    topology: impostor
    program: ./impostor
    nodes: { a: { machine: Button, required: true, restart: { max: 1 } } }
    timeouts: { start: 4s }
    """

  @Test(
    "a program that does not become a node is given up, with what it wrote",
    arguments: [
      ("exec sleep 600", "it did not say hello within 4 s"),
      ("echo no disk >&2; exit 3", "it ended (exit code 3) before it said hello"),
      ("exit 0", "it ended (exit code 0) before it said hello"),
    ])
  func impostor(behaviour: String, reason: String) async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    tool.environment["PATH"] = CommandLineTool.products + ":/usr/bin:/bin"
    try tool.directory.write(Self.impostor, to: "impostor.yaml")
    try tool.directory.write(Self.program(behaviour), to: "impostor", mode: 0o700)
    let result = try await tool.run("run", "--plain", "impostor.yaml")
    #expect(result.code == 1, "\(result)")
    #expect(result.error.contains("required node 'a' failed: \(reason)"), "\(result)")
    if behaviour.contains("no disk") { #expect(result.error.contains("a | no disk")) }
    #expect(tool.directory.processes.isEmpty)
    #expect(tool.directory.sockets.isEmpty)
  }

  @Test("a socket path that is too long is an error before anything starts")
  func longPath() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let long = "a-node-with-a-name-that-is-as-long-as-one"
    try tool.directory.write(
      "topology: \(long)\nprogram: TestNodes\nnodes: { \(long): { machine: Button } }",
      to: "long.yaml")
    let program = try LaunchedProgram(
      CommandLineTool.orchestrator, ["run", "long.yaml"],
      environment: tool.directory.environment().merging([
        "PIPERUNTIME_ROOT": tool.directory.path + "/a-directory-that-makes-it-longer"
      ]) { _, own in own }, directory: tool.directory.path)
    let result = try await tool.result(of: program)
    #expect(result.code == 1, "\(result)")
    #expect(result.error.contains("bytes long and the system's limit is 107"))
    #expect(result.error.contains("PIPERUNTIME_ROOT"))
  }

  private static let button = """
    topology: button
    program: TestNodes
    nodes: { a: { machine: Button }, b: { machine: Blob }, c: { machine: Blob } }
    pipes: [{ from: b.out, to: c.in, name: blobs }]
    """

  @Test("a second run of a name is refused while the first goes on", arguments: ["run", "up"])
  func secondRun(verb: String) async throws {
    try await withTopology(yaml: Self.button) { topology in
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run(verb, "topology.yaml")
      #expect(result.code == 1, "\(result)")
      #expect(
        result.error.contains(
          "topology 'button' is already running (pid \(topology.orchestrator.pid), "), "\(result)")
      #expect(result.error.contains("orchestrator down -p button"))
      #expect(try await topology.directory().isRunning)
    }
  }

  @Test("an event that does not decode changes nothing, and its error says what the node takes")
  func badEvents() async throws {
    try await withTopology(yaml: Self.button) { topology in
      for (event, part) in [
        ("presss", "it takes press"), (["press": ["times": "x"]], nil), (["a": 1, "b": 2], nil),
        (["number": ["n": 1]], "it takes press"), (.integer(7), nil), (.null, nil),
      ] as [(JSONValue, String?)] {
        do {
          let outcome = try await topology.send("a", event)
          if case .moved = outcome, event["press"] != nil { continue }
          Issue.record("\(event.text) was taken: \(outcome)")
        } catch TopologyClientError.invalidEvent("a", let reason) {
          if let part { #expect(reason.contains(part)) }
        }
      }
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run("send", "a", "presss")
      #expect(result.code == 2, "\(result)")
      #expect(result.error.contains("press"))
    }
  }

  @Test("an event to a node that is down is told so, and not queued for its next start")
  func nodeDown() async throws {
    try await withTopology(yaml: Self.button) { topology in
      try await topology.stop("a")
      do {
        try await topology.send("a", Button.Event.press)
        Issue.record("it was taken")
      } catch TopologyClientError.nodeDown("a", let reason) {
        #expect(reason == "stopped")
      }
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run("send", "a", "press")
      #expect(result.code == 1, "\(result)")
      #expect(result.error.contains("node 'a' does not run: stopped"))
      try await topology.start("a")
      #expect(try await topology.status("a").status?.state == ["pressed": ["times": 0]])
      await #expect(throws: TopologyClientError.unknownNode("z", known: ["a", "b", "c"])) {
        try await topology.send("z", "press")
      }
    }
  }

  @Test("an event over the size limit is refused, from a client and on a pipe")
  func tooLarge() async throws {
    try await withTopology(yaml: Self.button) { topology in
      let limit = WireLimits.eventByteCount
      do {
        try await topology.send("c", Blob.Event.take(text: String(repeating: "x", count: limit)))
        Issue.record("it was taken")
      } catch TopologyClientError.invalidEvent("c", let reason) {
        #expect(reason.contains("the limit is \(limit)"))
      }
      // One that is just small enough passes, by a client and by a pipe.
      let fits = limit - 100
      try await topology.send("c", Blob.Event.take(text: String(repeating: "x", count: fits)))
      try await topology.expect("c", Blob.State.holding(byteCount: fits))
      try await topology.send("b", Blob.Event.grow(byteCount: fits - 1))
      try await topology.expect("c", Blob.State.holding(byteCount: fits - 1))
      try await topology.send("b", Blob.Event.grow(byteCount: 2 * limit))
      try await topology.expectLog("b", contains: "pipe 'blobs': an event was not sent: it has")
      try await topology.send("b", Blob.Event.grow(byteCount: 3))
      try await topology.expect("c", Blob.State.holding(byteCount: 3))
      for node in ["b", "c"] { #expect(try await topology.status(node).incarnation == 1) }
    }
  }

  @Test("a full disk for logs costs the lines, is told once, and stops nobody")
  func fullDisk() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let directories = try RuntimeDirectories(topology: "ward", roots: tool.directory.roots)
    try FileSystem.makeDirectories(directories.logs)
    #expect(symlink("/dev/full", directories.logs + "/patient.log") == 0)
    try tool.directory.write(
      "topology: ward\nprogram: TestNodes\nnodes: { patient: { machine: Fragile } }",
      to: "ward.yaml")
    let run = try tool.start(["run", "--plain", "--lifeline", "ward.yaml"])
    #expect(try await run.waitForOutput(containing: "1 node running"), "\(run.errorText)")
    for _ in 1...3 {
      let sent = try await tool.run("send", "patient", "{\"shout\":{\"lines\":100}}")
      #expect(sent.code == 0, "\(sent)")
    }
    run.closeInput()
    let result = try await tool.result(of: run)
    #expect(result.code == 0, "\(result)")
    let warnings = result.error.split(separator: "\n").filter { $0.contains("cannot be written") }
    #expect(warnings.count == 1, "\(result)")
    #expect(warnings.first?.contains("the log of node 'patient'") == true)
    #expect(warnings.first?.contains("No space left on device") == true)
  }
}
