import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Programs that are no node programs, or bad ones", .timed)
struct BadProgramTests {
  @Test("a program that writes without end is told as such, and not as slow")
  func flood() async throws {
    let bad = BadFile("", "a: { machine: Button, program: /usr/bin/yes }", "")
    let problems = try await CommandLineTool.problems(of: bad.yaml)
    #expect(
      problems.first?.contains(
        "bad.yaml:4:34: error: '/usr/bin/yes describe' printed more than 64 MiB, the limit "
          + "for machine descriptions; check that the program is a node program") == true,
      "\(problems)")
  }

  @Test("parameters with which a program crashes are told for their node, and spoil no other")
  func crashingParameters() async throws {
    // Of several machines it describes one at most, as if it died of the others.
    let program = """
      #!/bin/sh
      [ "$1" = describe ] || exit 1
      case "$*" in *'"work":7'*) echo "out of work" >&2; exit 3 ;; esac
      exec '\(CommandLineTool.products)/TestNodes' "$@"
      """
    let problems = try await CommandLineTool.problems(
      of: """
        topology: fragile
        program: ./fragile
        nodes:
          a: { machine: Sink, parameters: { work: 7 } }
          b: { machine: Sink, parameters: { work: 8 } }
          c: { machine: Sink, parameters: { work: -8 } }
        """, beside: ["fragile": program])
    try #require(problems.count == 2, "\(problems)")
    #expect(
      problems[0].contains("bad.yaml:4:35: error: node 'a': machine 'Sink' cannot run: "),
      "\(problems)")
    #expect(problems[0].hasSuffix("failed (exit code 3): out of work [bad-parameters]"))
    #expect(problems[1].contains("bad.yaml:6:43: error: node 'c': "), "\(problems)")
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
      ("exec sleep 600", "the process did not connect within 4 s"),
      ("echo no disk >&2; exit 3", "the process ended (exit code 3) before it connected"),
      ("exit 0", "the process ended (exit code 0) before it connected"),
    ])
  func impostor(behaviour: String, reason: String) async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    tool.environment["PATH"] = CommandLineTool.products + ":/usr/bin:/bin"
    try tool.directory.write(Self.impostor, to: "impostor.yaml")
    try tool.directory.write(Self.program(behaviour), to: "impostor", mode: 0o700)
    let result = try await tool.run("run", "--plain", "impostor.yaml", code: 1)
    #expect(result.error.contains("required node 'a' failed: \(reason)"), "\(result)")
    if behaviour.contains("no disk") { #expect(result.error.contains("a | no disk")) }
    #expect(tool.directory.processes.isEmpty)
    #expect(tool.directory.sockets.isEmpty)
  }
}
