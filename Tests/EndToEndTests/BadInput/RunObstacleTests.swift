import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Runs that cannot start, and logs that cannot be written", .timed)
struct RunObstacleTests {
  @Test("A socket path that is too long causes an error before any process starts")
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
    let result = try await tool.end(of: program, code: 1)
    #expect(result.error.contains(" \(RuntimeDirectories.pathLimit); "))
    #expect(result.error.contains("PIPERUNTIME_ROOT"))
  }

  @Test("A second run with the name of a running topology is refused")
  func secondRun() async throws {
    let button = "topology: button\nprogram: TestNodes\nnodes: { a: { machine: Button } }"
    try await withTopology(yaml: button) { topology in
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run("run", "topology.yaml", code: 1)
      #expect(
        result.error.contains(
          "topology 'button' is already running (pid \(topology.orchestrator.pid), "), "\(result)")
      #expect(result.error.contains("orchestrator down -p button"))
      #expect(try await topology.directory().isRunning)
    }
  }

  @Test("If the log disk is full, lines are lost, one warning is printed, and all nodes continue")
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
      try await tool.run("send", "patient", "{\"shout\":{\"lines\":100}}", code: 0)
    }
    run.closeInput()
    let result = try await tool.end(of: run)
    let warnings = result.error.split(separator: "\n").filter {
      $0.contains("log of node 'patient'")
    }
    #expect(warnings.count == 1, "\(result)")
    #expect(warnings.first?.contains("No space left on device") == true)
  }
}
