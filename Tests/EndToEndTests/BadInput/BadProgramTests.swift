import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestTraits
import Testing

@Suite("Programs that are not node programs or misbehave", .timed)
struct BadProgramTests {
  @Test("The error for a program with endless output names the output limit and not a timeout")
  func flood() async throws {
    let bad = BadFile("", "a: { machine: Button, program: /usr/bin/yes }", "")
    let problems = try await CommandLineTool.problems(of: bad.yaml)
    #expect(
      problems.first?.contains("bad.yaml:4:34: error: '/usr/bin/yes describe' ") == true
        && problems.first?.contains(" 64 MiB") == true,
      "\(problems)")
  }

  @Test("Parameters that crash a program are reported for their node and do not affect other nodes")
  func crashingParameters() async throws {
    // The program cannot describe several machines at once, because the parameters of node 'a'
    // crash it.
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
      problems[0].contains("bad.yaml:4:35: error: node 'a': machine 'Sink' "),
      "\(problems)")
    #expect(problems[0].hasSuffix("(\(ProcessExit.exited(code: 3))): out of work [bad-parameters]"))
    #expect(problems[1].contains("bad.yaml:6:43: error: node 'c': "), "\(problems)")
  }

  /// Returns a program that describes itself correctly and then misbehaves.
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
    "'run' fails if a program does not connect as a node, and shows the program's output",
    arguments: [
      ("exec sleep 600", "\(MissedDeadline.connection(within: .seconds(4)))"),
      ("echo no disk >&2; exit 3", "(\(ProcessExit.exited(code: 3)))"),
      ("exit 0", "(\(ProcessExit.exited(code: 0)))"),
    ])
  func impostor(behaviour: String, reason: String) async throws {
    var tool = try CommandLineTool()
    defer { tool.remove() }
    tool.environment["PATH"] = CommandLineTool.products + ":/usr/bin:/bin"
    try tool.directory.write(Self.impostor, to: "impostor.yaml")
    try tool.directory.write(Self.program(behaviour), to: "impostor", mode: 0o700)
    let result = try await tool.run("run", "--plain", "impostor.yaml", code: 1)
    #expect(
      result.error.contains("required node 'a' failed: ") && result.error.contains(reason),
      "\(result)")
    if behaviour.contains("no disk") { #expect(result.error.contains("a | no disk")) }
    #expect(tool.directory.processes.isEmpty)
    #expect(tool.directory.leftoverPaths.isEmpty)
  }
}
