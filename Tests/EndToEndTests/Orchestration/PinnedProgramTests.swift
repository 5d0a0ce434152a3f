import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// A crash must not act as an upgrade: a program file that was replaced is used only by a requested
/// start.
@Suite("A program file that is replaced while its topology runs", .timed)
struct PinnedProgramTests {
  private static let script = """
    #!/bin/sh
    BUILD=first exec "\(CommandLineTool.products)/TestNodes" "$@"
    """

  private static let yaml = """
    topology: ward
    nodes:
      compiled: { machine: Button, program: ./compiled, restart: { backoff: { initial: 10ms } } }
      scripted: { machine: Button, program: ./scripted, restart: { backoff: { initial: 10ms } } }
    """

  private func withWard(_ body: (DetachedTopology) async throws -> Void) async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = ["compiled", "scripted"]
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: Self.yaml)
      try await tool.end(
        of: tool.start(
          program: "/bin/cp", ["\(CommandLineTool.products)/TestNodes", "compiled"]))
      try await write(Self.script, to: "scripted", tool)
      try await ward.up()
      try await body(ward)
      try await ward.run("down")
    }
  }

  private func write(_ script: String, to file: String, _ tool: CommandLineTool) async throws {
    try tool.directory.write(script + "\n", to: file)
    try await tool.end(of: tool.start(program: "/bin/chmod", ["+x", file]))
  }

  /// Replaces both programs by one that fails.
  private func replace(_ ward: DetachedTopology) async throws {
    let tool = ward.tool
    try await write("#!/bin/sh\nexit 3", to: "other", tool)
    try await tool.end(of: tool.start(program: "/bin/mv", ["other", "compiled"]))
    // Overwrites the file in place, as an editor may do.
    try await write("#!/bin/sh\nexit 3", to: "scripted", tool)
  }

  @Test("A restart after a crash runs the former build of a replaced program")
  func crash() async throws {
    try await withWard { ward in
      let before = try await ward.pids()
      try await replace(ward)
      for node in ["compiled", "scripted"] { try await ward.run("kill", node) }
      let after = try await ward.await("both run again") { directory in
        directory.nodes.allSatisfy { $0.isRunning && $0.pid != before[$0.name] }
      }
      for node in after.nodes {
        let pid = try #require(node.pid)
        let name = node.name == "compiled" ? "compiled" : "TestNodes"
        #expect(FileSystem.text(of: "/proc/\(pid)/comm") == name + "\n")
        let environment = FileSystem.text(of: "/proc/\(pid)/environ")
        #expect(environment?.contains("BUILD=first") == (node.name == "scripted"))
      }
    }
  }

  @Test("'restart' and 'apply' run the new build of a replaced program")
  func restart() async throws {
    try await withWard { ward in
      try await replace(ward)
      let restart = try await ward.run("restart", "scripted", code: 1)
      #expect(restart.error.contains("exit code 3"), "\(restart)")
      #expect(try await ward.directory()[node: "compiled"]?.isRunning == true)
      try await write(
        Self.script.replacing("first", with: "second"), to: "scripted", ward.tool)
      try await write(
        Self.script.replacing("first", with: "second"), to: "compiled", ward.tool)
      let apply = try await ward.run("apply", "ward.yaml")
      #expect(apply.output.contains("~ compiled  restarts: its program was rebuilt"), "\(apply)")
      for node in try await ward.directory().nodes {
        let pid = try #require(node.pid)
        let environment = FileSystem.text(of: "/proc/\(pid)/environ")
        #expect(environment?.contains("BUILD=second") == true, "\(node.name)")
      }
    }
  }
}
