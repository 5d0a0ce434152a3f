import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Searches with misbehaving programs", .timed)
struct OddProgramTests {
  /// Returns a program that describes itself correctly and evaluates single steps as `behaviour`
  /// says.
  private static func program(_ behaviour: String) -> String {
    """
    #!/bin/sh
    [ "$1" = explore ] || exec TestNodes "$@"
    opens() { read -r line; printf '%s\\n' "$line" | TestNodes explore; }
    \(behaviour)
    """
  }

  private static let topology = """
    topology: odd
    program: ./odd
    nodes:
      a: { machine: Automaton, parameters: { steps: ["0 x 1"] } }
    explore:
      from_outside: { a: [x] }
      end: { a: { at: { place: "1" } } }
    """

  private func explore(
    _ behaviour: String, _ topology: String = OddProgramTests.topology,
    _ body: (CommandLineTool, CommandLineTool.Result) async throws -> Void
  ) async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    tool.environment["PATH"] = CommandLineTool.products + ":/usr/bin:/bin"
    try tool.directory.write(topology, to: "odd.yaml")
    try tool.directory.write(Self.program(behaviour), to: "odd", mode: 0o700)
    let result = try await tool.run("check", "--explore", "odd.yaml", within: .seconds(60))
    try await body(tool, result)
  }

  /// Waits until no process is left. A process that the program has started is killed together with
  /// the program, and ends a little later.
  private func expectNoProcess(in tool: CommandLineTool, _ what: String = "") async throws {
    let isEmpty = try await poll(within: .seconds(20)) {
      tool.directory.processes.isEmpty ? true : nil
    }
    #expect(isEmpty == true, "\(what) \(tool.directory.processes)")
  }

  @Test("A step evaluator that answers correctly through a shell is accepted")
  func even() async throws {
    try await explore("exec TestNodes explore") { tool, result in
      #expect(result.code == 0, "\(result)")
      #expect(result.output.contains("odd.yaml: exact: "), "\(result)")
      try await expectNoProcess(in: tool)
    }
  }

  @Test(
    "A misbehaving step evaluator is reported at its node and leaves the search incomplete",
    arguments: [
      (
        "garbage at the opening", "read -r line; echo no answer; exec sleep 600", "no answer",
        "bad-answer"
      ),
      (
        "another answer at the opening",
        "read -r line; echo '{\"undecided\":{\"reason\":\"of the weather\"}}'; exec sleep 600",
        "of the weather", "bad-answer"
      ),
      (
        "garbage at a row", "opens; read -r line; echo '{'; exec sleep 600",
        "sent an invalid "
          + "answer: {;",
        "bad-answer"
      ),
      (
        "an answer to another question at a row",
        "opens; while read -r line; do echo '{\"projected\":{\"state\":1}}'; done",
        "the answer does not match the request", "bad-answer"
      ),
      (
        "more answers than questions",
        "opens; echo more; read -r line; echo '{\"undecided\":{\"reason\":\"of the weather\"}}'; exec sleep 600",
        "sent an invalid answer: more;", "bad-answer"
      ),
      (
        "another machine", "sed -u 's/\"Automaton\"/\"Moody\"/' | TestNodes explore",
        "steps", "bad-answer"
      ),
      (
        "another machine without parameters",
        "sed -u 's/\"machine\":\"[A-Za-z]*\"/\"machine\":\"Moody\"/; s/\"steps\":\\[[^]]*\\]//' | TestNodes explore",
        "node 'a' starts in state 'calm', but the description of machine 'Automaton' lists initial "
          + "state 'at(place: \"0\")'", "bad-answer"
      ),
      (
        "a pipe that there is not",
        "opens; while read -r line; do echo '{\"accepted\":{\"configuration\":{\"state\":{\"at\":{\"place\":\"1\"}},"
          + "\"effects\":[]},\"sends\":[{\"pipe\":\"p\",\"event\":\"x\"}]}}'; done",
        "sends to pipe 'p', which is not an outbound pipe", "bad-answer"
      ),
      (
        "no answer to the opening", "read -r line; exec sleep 600", "after 10s", "late-answer"
      ),
      ("no answer to a row", "opens; read -r line; exec sleep 600", "after 10s", "late-answer"),
    ])
  func odd(what: String, behaviour: String, message: String, code: String) async throws {
    try await explore(behaviour) { tool, result in
      #expect(result.code == 1, "\(what): \(result)")
      let place = "odd.yaml:4:6: error: program './odd' "
      #expect(
        result.output.split(separator: "\n").contains {
          $0.hasPrefix(place) && $0.contains(message) && $0.hasSuffix("[\(code)]")
        }, "\(what): \(result)")
      #expect(result.output.contains("incomplete: "), "\(what): \(result)")
      try await expectNoProcess(in: tool, what)
    }
  }

  @Test("An invalid answer of a step evaluator is not reported as a refused event")
  func silent() async throws {
    let topology = """
      topology: odd
      program: TestNodes
      nodes:
        a: { machine: Automaton, parameters: { steps: ["0 x 1"] } }
        t: { machine: Automaton, program: ./odd, parameters: { steps: ["0 x 1"] } }
      pipes: [{ from: a, when: at, to: t, send: x }]
      explore: { from_outside: { a: [x] } }
      """
    try await explore("echo 'loading settings ...'; exec TestNodes explore", topology) {
      tool, result in
      #expect(result.code == 1, "\(result)")
      #expect(result.output.contains("[bad-answer]"), "\(result)")
      #expect(!result.output.contains("dead letter"), "\(result)")
      #expect(!result.output.contains("null"), "\(result)")
      try await expectNoProcess(in: tool)
    }
  }

  @Test(
    "A step evaluator that dies is reported as a crashing step at its node",
    arguments: [
      (
        "read -r line; echo no room >&2; exit 3",
        "crashing step: starting ends the process of 'a': exit code 3: no room"
      ),
      (
        "opens; read -r line; exit 4",
        "crashing step: accepting 'x' in state 'at(place: \"0\")' ends the process of 'a': exit "
          + "code 4"
      ),
      (
        "opens; kill -9 $$",
        "crashing step: accepting 'x' in state 'at(place: \"0\")' ends the process of 'a': "
      ),
    ])
  func dead(behaviour: String, message: String) async throws {
    try await explore(behaviour) { tool, result in
      #expect(result.code == 1, "\(result)")
      #expect(result.output.contains("odd.yaml:4:6: error: \(message)"), "\(result)")
      try await expectNoProcess(in: tool)
    }
  }

  @Test("Before a search, a program that is not a node program is reported at its line in the file")
  func foreign() async throws {
    try await explore(
      "", Self.topology.replacing("program: ./odd", with: "program: /bin/true")
    ) { tool, result in
      #expect(result.code == 2, "\(result)")
      #expect(result.error.contains("odd.yaml:2:10: error: '/bin/true describe' "), "\(result)")
      try await expectNoProcess(in: tool)
    }
  }
}
