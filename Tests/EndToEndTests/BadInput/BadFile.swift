import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// An invalid topology file and the error that `run` must print for it.
struct BadFile: Sendable, CustomTestStringConvertible {
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

  private static func withComposite(_ composite: String) -> String {
    """
    topology: bad
    program: TestNodes
    nodes: { a: { machine: Button }, b: { machine: Gate } }
    composites: { both: \(composite) }
    """
  }

  private static let two = "a: { machine: Button }\nb: { machine: Gate }"

  static let all: [BadFile] = [
    BadFile(
      "not YAML", file: "topology: bad\nnodes: { a: [\n",
      "bad.yaml:3:1: error: "),
    BadFile("an empty file", file: "", "bad.yaml:1:1: error: "),
    BadFile(
      "an unknown key", "a: { machin: Button }",
      "[unknown-key]"),
    BadFile(
      "an unknown key that is similar to a known key", "a: { machine: Button, requierd: true }",
      "'required'? [unknown-key]"),
    BadFile(
      "a node named twice", "a: { machine: Button }\na: { machine: Gate }",
      "bad.yaml:5:3: error: "),
    BadFile(
      "an unknown machine", "a: { machine: Buton }",
      "[unknown-machine]"),
    BadFile(
      "an unknown port", "a: { machine: Source }\nb: { machine: Sink }",
      "[unknown-port]", pipes: "{ from: a.outt, to: b.in }"),
    BadFile(
      "an unknown state", two, "[unknown-state]",
      pipes: "{ from: a, when: presed, to: b, send: pass }"),
    BadFile(
      "an unknown event", two, "[unknown-event]",
      pipes: "{ from: a, when: pressed, to: b, send: pas }"),
    BadFile(
      "a payload field of the wrong type", "a: { machine: Button }\nb: { machine: Sink }",
      "[type-mismatch]",
      pipes: "{ from: a, when: pressed, to: b, send: { number: { n: much } } }"),
    BadFile(
      "a payload field that is missing", "a: { machine: Button }\nb: { machine: Sink }",
      "[missing-field]", pipes: "{ from: a, when: pressed, to: b, send: number }"),
    BadFile(
      "a pipe between different event types", "a: { machine: Source }\nb: { machine: Blob }",
      "[unlike-events]", pipes: "{ from: a.out, to: b.in }"),
    BadFile(
      "a cycle in depends_on",
      "a: { machine: Button, depends_on: [b] }\nb: { machine: Button, depends_on: [a] }",
      "[dependency-cycle]"),
    BadFile(
      "an unknown state in depends_on",
      "a: { machine: Button }\nb: { machine: Button, depends_on: { a: { state: presed } } }",
      "[unknown-state]"),
    BadFile(
      "parameters that cannot be decoded", "a: { machine: Sink, parameters: { work: hard } }",
      "[bad-parameters]"),
    BadFile(
      "a parameter that does not exist", "a: { machine: Sink, parameters: { wrok: 1 } }",
      "[bad-parameters]"),
    BadFile(
      "a program that is missing", "a: { machine: Button, program: no-such-program }",
      "'no-such-program'"),
    BadFile(
      "a program without execute permission", "a: { machine: Button, program: ./bad.yaml }",
      "'chmod +x "),
    BadFile(
      "a program that is not a node program", "a: { machine: Button, program: /bin/true }",
      "[bad-program]"),
    BadFile(
      "a program that fails at once", "a: { machine: Button, program: /bin/false }",
      "\(ProcessExit.exited(code: 1))"),
    BadFile(
      "a program that is a directory", "a: { machine: Button, program: /tmp }",
      "'/tmp' "),
    BadFile(
      "a parameter value that the machine rejects",
      "a:\n  machine: Sink\n  parameters:\n    work: -1",
      "must be 0 or more, not -1 [bad-parameters]"),
    BadFile(
      "a number that is too large",
      "a: { machine: Sink, parameters: { work: 99999999999999999999 } }",
      "bad.yaml:4:43: error: node 'a': 'parameters.work' cannot be 99999999999999999999: "),
    BadFile(
      "a node whose name is a number", "1: { machine: Button }",
      "bad.yaml:4:3: error: node '1': "),
    BadFile(
      "a variable that is not set", "a: { machine: Button, environment: { A: ${PR_TEST_NONE} } }",
      "[unset-variable]"),
    BadFile(
      "a composite of an unknown node",
      file: withComposite("{ components: [a, b, c] }"), "[unknown-node]"),
    BadFile(
      "a synchronized event of a single node",
      file: withComposite("{ components: [a, b], synchronize: [press] }"),
      "[too-few-participants]"),
    BadFile(
      "a composite state that the program does not register",
      file: withComposite("{ components: [a, b], projection: Both }"),
      "[unknown-projection]"),
  ]
}

extension CommandLineTool {
  /// Returns the error lines that `check` prints for an invalid file.
  /// - Parameter programs: The texts of programs beside the file, by name.
  static func problems(
    of yaml: String, beside programs: [String: String] = [:]
  ) async throws -> [Substring] {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    for (name, text) in programs { try tool.directory.write(text, to: name, mode: 0o700) }
    let result = try await tool.run(
      "check", try tool.directory.write(yaml, to: "bad.yaml"), code: 2)
    return result.error.split(separator: "\n")
  }
}
