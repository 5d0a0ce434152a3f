import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Topology files with errors", .timed)
struct BadFileTests {
  @Test(
    "'check', 'run' and 'up' exit 2 for a bad file and print the error with its location",
    arguments: BadFile.all)
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
    #expect(tool.directory.leftoverPaths.isEmpty)
  }

  @Test("Syntax errors and wiring errors of a topology file are reported together, in file order")
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

  @Test("A misspelt port causes one error, and no second error about an unconnected port")
  func misspeltPort() async throws {
    let bad = BadFile(
      "", "a: { machine: Source }\nb: { machine: Sink }", "", pipes: "{ from: a.outt, to: b.in }")
    let problems = try await CommandLineTool.problems(of: bad.yaml)
    #expect(problems.count == 1, "\(problems)")
  }

  @Test("A missing file, a directory and an unreadable file have three different errors")
  func unreadable() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let missing = try await tool.run("run", "none.yaml", code: 2)
    var texts = [missing.error.replacing("none.yaml", with: "")]
    texts.append(try await tool.run("run", ".", code: 2).error.replacing(".:", with: ":"))
    if geteuid() != 0 {
      try tool.directory.write("topology: x", to: "secret.yaml", mode: 0)
      let secret = try await tool.run("run", "secret.yaml", code: 2)
      texts.append(secret.error.replacing("secret.yaml", with: ""))
    }
    #expect(texts.allSatisfy { $0.hasSuffix("[unreadable-file]\n") }, "\(texts)")
    #expect(Set(texts).count == texts.count, "\(texts)")
  }
}
