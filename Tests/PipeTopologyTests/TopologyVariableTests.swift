import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire
import Testing

@Suite("Variables in a topology")
struct TopologyVariableTests {
  private static let values = ["NUMBER": "7", "WORD": "word", "EMPTY": "", "DOLLAR": "$a ${WORD}"]

  /// Returns the topology of a text with some variables.
  private func topology(
    _ text: String, _ values: [String: String] = values
  ) throws(TopologyErrors) -> Topology {
    try TopologyReader.read(text: text.utf8, file: "test.yaml", variables: .init(values)).topology
  }

  /// Returns the parameter `v` of the only node, with this value.
  private func parameter(_ value: String) throws -> JSONValue? {
    try topology(withNodes("a: { machine: M, parameters: { v: \(value) } }"))
      .node("a")?.parameters["v"]
  }

  private func errors(_ text: String, _ values: [String: String] = values) -> [String] {
    do {
      _ = try topology(text, values)
      return []
    } catch {
      return error.diagnostics.map(\.description)
    }
  }

  @Test(
    "The text of a variable is read as if the file contained the text",
    arguments: [
      ("${NUMBER}", 7), ("\"${NUMBER}\"", "7"), ("'${NUMBER}'", "7"), ("${WORD}", "word"),
      ("1${NUMBER}", 17), ("a${NUMBER}b${WORD}c", "a7bwordc"), ("${NONE:-3}", 3),
      ("${NONE:-}", .null), ("\"${NONE:-}\"", ""), ("${EMPTY}", .null), ("${EMPTY:-3}", 3),
      ("${NUMBER:-3}", 7), ("${NONE:-a: b, [c] #d}", "a: b, [c] #d"),
      ("[${NUMBER}, ${WORD}]", [7, "word"]),
      ("${NONE:-true}", true), ("${NONE:-x:-y}", "x:-y"), ("\"${NONE:-{}\"", "{"),
    ] as [(String, JSONValue)])
  func values(text: String, value: JSONValue) throws {
    #expect(try parameter(text) == value)
  }

  @Test(
    "Defaults for missing and empty variables are as in Compose",
    arguments: [
      ("${NONE-3}", 3), ("\"${EMPTY-3}\"", ""), ("${NUMBER-3}", 7),
      ("${NUMBER:?set it}", 7), ("${NUMBER?set it}", 7), ("\"${EMPTY?set it}\"", ""),
      ("${NUMBER:+3}", 3), ("\"${EMPTY:+3}\"", ""), ("${EMPTY+3}", 3), ("\"${NONE+3}\"", ""),
      ("\"${NONE:+3}\"", ""),
      ("${NONE:-${NUMBER}}", 7), ("${NONE:-${NONE:-${WORD}}}", "word"),
      ("${NONE:-a${NUMBER}b}", "a7b"), ("\"${NONE:-{${WORD}}\"", "{word"),
      ("${NUMBER:+${WORD}}", "word"), ("${NONE:-$$}", "$"), ("${NONE-}x", "x"),
    ] as [(String, JSONValue)])
  func rules(text: String, value: JSONValue) throws {
    #expect(try parameter(text) == value)
  }

  @Test(
    "A required variable that is missing causes an error with the file's message",
    arguments: [
      ("${NONE:?where is the till}", "variable 'NONE' is not set: where is the till; set it"),
      ("${EMPTY:?where is the till}", "variable 'EMPTY' is empty: where is the till; set it"),
      ("${NONE?where is ${WORD}}", "variable 'NONE' is not set: where is word; set it"),
      ("${NONE:?}", "variable 'NONE' is not set; set it"),
      ("${OTHER:-${NONE}}", "variable 'NONE' is not set; set it"),
    ])
  func required(text: String, message: String) {
    let errors = errors(withNodes("a: { machine: M, parameters: { v: '\(text)' } }"))
    #expect(errors.count == 1 && errors[0].contains(message), "\(errors)")
  }

  @Test(
    "'$$' becomes '$', a single '$' is kept, and inserted values are not expanded again",
    arguments: [
      ("$$", "$"), ("US$$5", "US$5"), ("US$5", "US$5"), ("$", "$"), ("$$${NUMBER}", "$7"),
      ("$${NUMBER}", "${NUMBER}"), ("\"$${NUMBER}\"", "${NUMBER}"), ("$$$$", "$$"),
      ("\"${DOLLAR}\"", "$a ${WORD}"), ("$WORD", "$WORD"),
    ] as [(String, JSONValue)])
  func dollars(text: String, value: JSONValue) throws {
    #expect(try parameter(text) == value)
  }

  @Test("A pipe's template keeps references to the state, and escapes dollars of variables")
  func template() throws {
    func send(_ value: String) throws -> JSONValue? {
      try topology(withPipe("{ from: door, when: s, to: display, send: { e: { v: \(value) } } }"))
        .pipes[0].eventTemplate?["e"]?["v"]
    }
    #expect(try send("$persons") == "$persons")
    #expect(try send("$$persons") == "$$persons")
    #expect(try send("${NUMBER}") == 7)
    #expect(try send("'$persons of ${NUMBER}'") == "$persons of 7")
    #expect(try send("'${DOLLAR}'") == "$$a $${WORD}")
    #expect(try send("'$${NUMBER}'") == "$${NUMBER}")
  }

  /// A topology with variables for every type of value, quoted as an editor's YAML requires.
  static let everywhere = """
    topology: "${N:-t}"
    program: "${P:-p}"
    environment: { A: "${A:-1}" }
    timeouts: { start: "${D:-1s}" }
    nodes:
      a:
        machine: "${M:-M}"
        durability: "${L:-none}"
        place: "${PLACE:-front}"
        on_host_loss: "${LOSS:-move}"
        required: "${R:-true}"
        depends_on: { b: "${C:-ready}" }
        restart:
          policy: "${POLICY:-always}"
          max: "${MAX:-3}"
          window: "${W:-1m}"
          backoff: { initial: "${I:-0s}", jitter: "${J:-0.5}" }
      b: { constant: "${S:-s}" }
      c: { machine: M, depends_on: { a: { state: "${S:-s}" } } }
    pipes:
      - { from: "${FROM:-b}", when: "${S:-s}", to: "${TO:-a}", send: "${E:-e}", name: "${PN:-n}" }
      - { from: "${FROM:-a.out}", to: c, capacity: "${K:-4}", on_refused: "${O:-fail}" }
      - { from: a, when: x, to: c, send: { e: { v: "${V:-1}" } } }
    composites: { d: { components: ["${C1:-a}", c], synchronize: ["${SYNC:-e}"] } }
    monitors: { m: { monitor: "${MON:-L}", watch: ["${C1:-a}"] } }

    """

  @Test("The key's type decides the type of a quoted variable")
  func typed() throws {
    let found = try topology(Self.everywhere, [:])
    let node = try #require(found.node("a"))
    #expect(found.name == "t" && found.environment == ["A": "1"])
    #expect(found.timeouts.start == .seconds(1))
    #expect(node.machine == "M" && node.required && node.durability == .volatile)
    #expect(node.place == "front" && node.hostLossPolicy == .move)
    #expect(node.restart.mode == .always && node.restart.maximumRestarts == 3)
    #expect(node.restart.backoff == .init(initial: .zero, jitter: 0.5))
    #expect(node.dependsOn == ["b"])
    #expect(found.node("c")?.dependsOn == [NodeDependency("a", .state("s"))])
    #expect(found.pipes.map(\.name) == ["n", "a.out->c", "a:x->c:e"])
    #expect(found.pipes[1].capacity == 4 && found.pipes[1].onRefused == .fail)
    #expect(try topology(Self.everywhere, ["N": "2024", "K": "8"]).name == "2024")
  }

  @Test("Variables in keys are not expanded")
  func keys() throws {
    let text = withNodes("a: { machine: M, parameters: { $${A}: 1, b$: 2 } }")
    #expect(try topology(text).node("a")?.parameters == ["$${A}": 1, "b$": 2])
  }

  @Test("An unset variable causes an error at its value, and affects no other value")
  func unset() {
    let text = withNodes(
      """
      a: { machine: M, restart: { max: ${MAX}, window: 1 } }
      b: { machine: "${M}", parameters: { x: ${X} }, environment: { Y: "${Y}" } }
      """,
      and: "pipes:\n  - { from: a, when: s, to: b, send: { e: { v: ${V} } }, capacity: ${C} }\n")
    let found = errors(text)
    let places = found.map { $0.split(separator: " ")[0] }
    #expect(
      places == [
        "test.yaml:4:36:", "test.yaml:4:52:", "test.yaml:5:17:", "test.yaml:5:42:",
        "test.yaml:5:68:", "test.yaml:7:48:", "test.yaml:7:68:",
      ], "\(found)")
    #expect(found.count { $0.hasSuffix("[unset-variable]") } == 6)
    #expect(
      found.first
        == "test.yaml:4:36: error: variable 'MAX' is not set; set it in the environment or in '.env' "
        + "beside the topology file, or give it a default: '${MAX:-VALUE}' [unset-variable]")
  }

  @Test("A value that does not match its key is reported with its variable")
  func misfit() {
    let text = withPipe("{ from: door.out, to: display, capacity: ${WORD} }")
    #expect(
      errors(text) == [
        "test.yaml:7:46: error: pipe 1: 'capacity' must be an integer number of events from 1 to "
          + "65536, not 'word' from '${WORD}' [bad-value]"
      ])
  }

  @Test(
    "Invalid text in braces causes an error that says what to write",
    arguments: [
      ("${1A}", "'${1A}' is not a valid variable"), ("${}", "'${}' "),
      ("${A=no}", "'${A=no}' "),
      ("${A:}", "'${A:}' "),
      ("${A:=x}", "'${A:=x}' "),
      ("'${B:-${A B}}'", "'${A B}' "),
      ("'${A'", "unterminated '${' in '${A': missing '}'"),
      ("'${A:-${B}'", "unterminated '${' in '${A:-${B}': missing '}'"),
    ])
  func unknown(value: String, message: String) {
    let found = errors(withNodes("a: { machine: M, parameters: { v: \(value) } }"))
    #expect(found.count == 1, "\(found)")
    #expect(found.first?.hasPrefix("test.yaml:4:37: error: \(message)") == true, "\(found)")
    #expect(found.first?.hasSuffix("[bad-variable]") == true, "\(found)")
  }

  @Test("A dollar before a name without braces causes a warning, except in a pipe's template")
  func plainDollar() throws {
    func warnings(_ text: String) throws -> [Diagnostic] {
      try TopologyReader.examine(
        text: Array(text.utf8), file: "test.yaml", variables: .init(Self.values)
      ).diagnostics
    }
    let node = "a: { machine: M, parameters: { v: $HOME/x, w: $5, x: a$, y: $$HOME } }"
    #expect(
      try warnings(withNodes(node)).map(\.description) == [
        "test.yaml:4:37: warning: '$HOME' is not expanded and stays as text; write '${HOME}' for "
          + "the variable, or '$$HOME' for this text [plain-dollar]"
      ])
    let pipe = "{ from: door, when: s, to: display, send: { e: { v: $persons } } }"
    #expect(try warnings(withPipe(pipe)) == [])
  }

  @Test(
    "A pipe from a node to itself causes a warning",
    arguments: [
      ("{ from: door, when: closed, to: door, send: start }", 37),
      ("{ from: door.arrivals, to: door.updates }", 32),
    ])
  func selfPipe(pipe: String, column: Int) throws {
    let found = try TopologyReader.examine(
      text: Array(withPipe(pipe).utf8), file: "test.yaml", variables: .init([:])
    )
    .diagnostics.map(\.description)
    #expect(found.count == 1, "\(found)")
    #expect(
      found.first?.hasPrefix("test.yaml:7:\(column): warning: ") == true
        && found.first?.contains("connects node 'door' to itself: when the pipe is full") == true
        && found.first?.hasSuffix("[self-pipe]") == true, "\(found)")
  }

  @Test("Characters that the reader uses to mark braces are read unchanged")
  func standIns() throws {
    #expect(try parameter("\"\u{10FF7B}${NUMBER}\"") == "\u{10FF7B}7")
    #expect(try parameter("\"\u{10FF7C}${NUMBER}\"") == "\u{10FF7C}7")
    #expect(try parameter("\"${NUMBER}\u{10FF01}\"") == "7\u{10FF01}")
  }
}
