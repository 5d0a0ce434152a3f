import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The directories of sockets and state", .timed)
struct PlaceTests {
  /// Runs the orchestrator without `PIPERUNTIME_ROOT`, with these variables.
  private func run(
    _ tool: CommandLineTool, _ variables: [String], _ arguments: [String]
  ) async throws -> CommandLineTool.Result {
    let program = try tool.start(
      program: "/usr/bin/env",
      ["-u", "PIPERUNTIME_ROOT", "-u", "XDG_RUNTIME_DIR"] + variables
        + [CommandLineTool.orchestrator] + arguments)
    return try await tool.result(of: program)
  }

  @Test("An unusable state directory causes an error before any node starts")
  func unusableState() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(
      "topology: pressed\nprogram: TestNodes\nnodes: { a: { machine: Button } }", to: "t.yaml")
    let file = try tool.directory.write("", to: "file")
    for arguments in [["run", "--plain", "t.yaml"], ["up", "-d", "t.yaml"]] {
      let result = try await run(
        tool, ["XDG_RUNTIME_DIR=\(tool.directory.path)", "XDG_STATE_HOME=\(file)"], arguments)
      #expect(result.code == 1, "\(result)")
      #expect(
        result.error.contains("'\(file)/piperuntime/pressed'")
          && result.error.contains("(Not a directory)"), "\(result)")
      #expect(!result.error.contains("errno"))
    }
  }

  @Test("A note about sockets in /tmp is printed when a topology starts or is not found")
  func fallback() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    // A name of this test's own, because all tests share the directory.
    let name = "t" + tool.directory.path.filter { $0.isLetter || $0.isNumber }
    try tool.directory.write(
      "topology: \(name)\nprogram: TestNodes\nnodes: { a: { machine: Button } }", to: "t.yaml")
    let state = "XDG_STATE_HOME=\(tool.directory.path)/state"
    let note = "XDG_RUNTIME_DIR is not set, so sockets are in '/tmp/piperuntime-"
    let started = try await run(tool, [state], ["run", "--plain", "--timeout", "0s", "t.yaml"])
    #expect(started.code == 0, "\(started)")
    #expect(started.error.hasPrefix("note: " + note), "\(started)")
    #expect(started.error.split(separator: "\n").count == 1, "\(started)")
    let missing = try await run(tool, [state], ["ps", "-p", name])
    #expect(missing.code == 3 && missing.error.contains("\n" + note), "\(missing)")
    let chosen = try await run(
      tool, [state, "XDG_RUNTIME_DIR=\(tool.directory.path)"],
      ["run", "--plain", "--timeout", "0s", "t.yaml"])
    #expect(chosen.code == 0 && chosen.error == "", "\(chosen)")
  }
}
