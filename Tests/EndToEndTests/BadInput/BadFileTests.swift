import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Topology files with errors", .timed)
struct BadFileTests {
  @Test(
    "A bad file is an error with location and reason, and exit code 2", arguments: BadFile.all)
  func badFile(_ bad: BadFile) async throws {
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

  @Test("Errors of a file and of its wiring are reported together, in the order of the file")
  func allAtOnce() async throws {
    let problems = try await CommandLineTool.problems(
      of: """
        topology: bad
        program: TestNodes
        nodes:
          a: { machine: Buton, durability: proces }
          b: { machine: Gate, requierd: true }
        pipes:
          - { from: b, when: opne, to: a, send: press }
          - { from: b, when: open, to: c, send: press }
        """)
    let codes = problems.compactMap { line in
      line.split(separator: "[").last.map { String($0.dropLast()) }
    }
    #expect(
      codes == ["unknown-machine", "bad-value", "unknown-key", "unknown-state", "unknown-node"],
      "\(problems)")
  }

  @Test("A misspelt port is a single error without a second one about an unconnected port")
  func misspeltPort() async throws {
    let bad = BadFile(
      "", "a: { machine: Source }\nb: { machine: Sink }", "", pipes: "{ from: a.outt, to: b.in }")
    let problems = try await CommandLineTool.problems(of: bad.yaml)
    #expect(problems.count == 1, "\(problems)")
  }

  @Test("Missing files, directories and unreadable files each have an error of their own")
  func unreadable() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let missing = try await tool.run("run", "none.yaml", code: 2)
    #expect(
      missing.error
        == "none.yaml: error: no such file; check the path [unreadable-file]\n")
    let directory = try await tool.run("run", ".", code: 2)
    #expect(directory.error.contains("is a directory"))
    if geteuid() != 0 {
      try tool.directory.write("topology: x", to: "secret.yaml", mode: 0)
      let secret = try await tool.run("run", "secret.yaml", code: 2)
      #expect(secret.error.contains("permission denied"))
    }
  }
}
