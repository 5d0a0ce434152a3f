import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing
import orchestrator

@Suite("Topologies from standard input with variables", .timed, .blocking)
struct TopologyInputTests {
  private static let text = #"""
    topology: ${PR_TEST_NAME:-piped}
    program: TestNodes
    x-sink: &sink { machine: Sink, durability: none }
    nodes:
      a: { machine: Source }
      b: { <<: *sink, parameters: { work: ${PR_TEST_WORK} } }
    pipes: [{ from: a.out, to: b, capacity: ${PR_TEST_CAPACITY:-8} }]
    """#

  private func run(_ line: String, text: String = text) throws -> Command.Result {
    let command = try Command()
    defer { command.remove() }
    return try command.run(shell: "cat > file <<'TEXT'\n\(text)\nTEXT\n\(line)")
  }

  @Test(
    "'check -' and 'config -' read standard input and the .env file of the working directory",
    arguments: [
      ("PR_TEST_WORK=1 orchestrator check - < file", 0, "<stdin>: ok: 2 nodes, 1 pipe\n", ""),
      (
        "echo PR_TEST_WORK=1 > .env; cat file | orchestrator check -", 0,
        "<stdin>: ok: 2 nodes, 1 pipe\n", ""
      ),
      (
        "PR_TEST_WORK=-1 orchestrator check - < file", 2, "",
        "<stdin>:6:39: error: node 'b': … [bad-parameters]\n"
      ),
      (
        "orchestrator check --file-only - < file", 2, "",
        "<stdin>:6:39: error: variable 'PR_TEST_WORK' … [unset-variable]\n"
      ),
      (
        "PR_TEST_WORK=1 orchestrator check - < /dev/null", 2, "",
        "<stdin>:1:1: error: … [missing-key]\n"
      ),
      (
        "PR_TEST_WORK=1 orchestrator check <(cat file) | sed 's|^/[^:]*|PIPE|'", 0,
        "PIPE: ok: 2 nodes, 1 pipe\n", ""
      ),
    ] as [(String, Int32, String, String)])
  func standardInput(line: String, code: Int32, output: String, error: String) throws {
    let result = try run(line)
    #expect(result.exit == .exited(code: code))
    #expect(result.output == output)
    #expect(error.isEmpty == result.error.isEmpty)
    // The location and the code of the error, without its text.
    let parts = error.split(separator: "…")
    #expect(parts.isEmpty || result.error.hasPrefix(parts[0]) && result.error.hasSuffix(parts[1]))
  }

  @Test("'config' resolves variables and merge keys, and leaves a resolved file unchanged")
  func config() throws {
    let line = """
      export PR_TEST_WORK=7
      echo PR_TEST_NAME=own > .env; echo PR_TEST_CAPACITY=9 >> .env
      PR_TEST_CAPACITY=10 orchestrator config file > one
      orchestrator config - < one > two && cmp one two && cat two
      """
    let text = try run(line).output
    #expect(text.hasPrefix("topology: own\nprogram: TestNodes\nnodes:\n  a:\n"))
    #expect(text.contains("  capacity: 10\n"))
    #expect(text.contains("    parameters: {work: 7}\n"))
    #expect(!text.contains("x-sink") && !text.contains("<<"))
  }

  @Test("'check' shows the warnings of a file, even with '--file-only'")
  func warnings() throws {
    let text =
      "topology: t\nprogram: TestNodes\nnodes: { a: { machine: Button, environment: { A: $HOME } } }"
    for options in ["", "--file-only"] {
      let result = try run("orchestrator check \(options) file", text: text)
      #expect(result.exit == .exited(code: 0))
      #expect(result.output == "file: ok: 1 node, 0 pipes, 1 warning\n")
      #expect(
        result.error.hasPrefix("file:3:50: warning: ")
          && result.error.hasSuffix(" [plain-dollar]\n"), "\(result)")
    }
  }

  @Test("A topology file that is a pipe is read to its end, however slowly it is written")
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
}
