import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// A crash must not upgrade a node: only a requested start uses a program file that was replaced.
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

  private func withWard(
    _ yaml: String = yaml, _ body: (DetachedTopology) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = ["compiled", "scripted"]
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: yaml)
      try await install(tool)
      try await ward.up()
      try await body(ward)
      try await ward.run("down")
    }
  }

  /// Makes both programs, and a directory with a link to the compiled program.
  private func install(_ tool: CommandLineTool) async throws {
    try await tool.end(
      of: tool.start(
        program: "/bin/cp", ["\(CommandLineTool.products)/TestNodes", "compiled"]))
    try await tool.end(of: tool.start(program: "/bin/mkdir", ["link"]))
    try await tool.end(
      of: tool.start(program: "/bin/ln", ["-s", "../compiled", "link/compiled"]))
    try await write(Self.script, to: "scripted", tool)
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

  /// Kills both nodes, and checks that both run the former programs again.
  private func expectFormerPrograms(
    _ ward: DetachedTopology, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let before = try await ward.pids()
    for node in ["compiled", "scripted"] { try await ward.run("kill", node) }
    let after = try await ward.await("both run again") { directory in
      directory.nodes.allSatisfy { $0.isRunning && $0.pid != before[$0.name] }
    }
    for node in after.nodes {
      let pid = try #require(node.pid)
      let name = node.name == "compiled" ? "compiled" : "TestNodes"
      #expect(FileSystem.text(of: "/proc/\(pid)/comm") == name + "\n", sourceLocation: location)
      let environment = FileSystem.text(of: "/proc/\(pid)/environ")
      #expect(
        environment?.contains("BUILD=first") == (node.name == "scripted"), sourceLocation: location)
    }
  }

  @Test("A restart after a crash runs the former build of a replaced program")
  func crash() async throws {
    try await withWard { ward in
      try await replace(ward)
      try await expectFormerPrograms(ward)
    }
  }

  @Test("A restart after a crash runs the former build of a removed program")
  func removed() async throws {
    try await withWard { ward in
      for program in ["compiled", "scripted"] {
        try await ward.tool.end(of: ward.tool.start(program: "/bin/rm", [program]))
      }
      try await expectFormerPrograms(ward)
    }
  }

  @Test("A restart after a crash runs the former build of a program that was overwritten in place")
  func overwritten() async throws {
    let yaml = Self.yaml.replacing("initial: 10ms", with: "initial: 1s")
    try await withWard(yaml) { ward in
      let path = ward.tool.directory.path + "/compiled"
      let identity = FileIdentity(path)
      // The kernel refuses to write to a program that runs, so the node is killed until a write
      // succeeds.
      let isOverwritten: Bool? = try await poll(every: .milliseconds(5), within: .seconds(30)) {
        if let pid = try await ward.pids()["compiled"] { kill(pid, SIGKILL) }
        let file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        try FileSystem.write(Array("#!/bin/sh\nexit 3\n".utf8), to: file, path: path)
        return true
      }
      #expect(isOverwritten == true)
      #expect(FileIdentity(path) == identity)
      try await ward.await("the node runs again") { $0[node: "compiled"]?.isRunning == true }
      try await expectFormerPrograms(ward)
    }
  }

  @Test("A restart after a crash runs the former build of a program behind a removed symbolic link")
  func linked() async throws {
    let yaml = Self.yaml.replacing("program: ./compiled", with: "program: ./link/compiled")
    try await withWard(yaml) { ward in
      for arguments in [["-rf", "link"], ["-f", "compiled"]] {
        try await ward.tool.end(of: ward.tool.start(program: "/bin/rm", arguments))
      }
      try await expectFormerPrograms(ward)
    }
  }

  @Test("Nodes that a new orchestrator adopts keep their programs until 'apply'")
  func adopted() async throws {
    try await withWard { ward in
      let before = try await ward.directory()
      let pids = try await ward.pids()
      try await replace(ward)
      try await ward.killOrchestrator()
      let up = try await ward.up()
      #expect(up.contains("2 nodes adopted"), "\(up)")
      #expect(try await ward.pids() == pids)
      try await expectFormerPrograms(ward)
      let after = try await ward.directory()
      for node in after.nodes {
        #expect(node.programVersion != nil)
        #expect(node.programVersion == before[node: node.name]?.programVersion)
      }
      let plan = try await ward.run("apply", "--dry-run", "ward.yaml", code: 2)
      #expect(plan.error.contains("bad-program"), "\(plan)")
    }
  }

  @Test("A node that ended together with its orchestrator starts with its former program")
  func bothKilled() async throws {
    try await withWard { ward in
      let pids = try await ward.pids()
      try await replace(ward)
      try await ward.killOrchestrator()
      let pid = try #require(pids["scripted"])
      kill(pid, SIGKILL)
      try await ward.up()
      try await expectFormerPrograms(ward)
    }
  }

  @Test("The copies of programs are removed when no node uses them")
  func copies() async throws {
    try await withWard { ward in
      let path = try ward.directories.state + "/programs"
      let before = Set(FileSystem.entryNames(of: path))
      #expect(before.count == 2)
      try await write(
        Self.script.replacing("first", with: "second"), to: "scripted", ward.tool)
      try await ward.run("apply", "ward.yaml")
      let after = Set(FileSystem.entryNames(of: path))
      #expect(after.count == 2 && after.intersection(before).count == 1, "\(after)")
      let version = try #require(try await ward.directory()[node: "scripted"]?.programVersion)
      #expect(after.contains { $0.hasPrefix(version) })
      let table = try await ward.run("ps")
      #expect(table.output.contains("PROGRAM"), "\(table)")
      #expect(table.output.contains(version.prefix(8)), "\(table)")
      try await ward.run("down")
      #expect(!FileSystem.exists(path))
      try await ward.up()
    }
  }

  @Test("An orchestrator that is killed while it copies a program leaves nothing behind")
  func killedWhileCopying() async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = ["compiled", "scripted"]
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: Self.yaml)
      try await install(tool)
      tool.environment["PIPERUNTIME_FAILPOINTS"] = "orchestrator:program.copied=crash@2"
      let up = try await tool.result(
        of: tool.start(["up", "--wait", "ward.yaml"]), within: .seconds(60))
      #expect(up.code != 0, "\(up)")
      tool.environment["PIPERUNTIME_FAILPOINTS"] = nil
      try await ward.up()
      let entries = FileSystem.entryNames(of: try ward.directories.state + "/programs")
      #expect(entries.count == 2 && !entries.contains { $0.hasPrefix("new-") }, "\(entries)")
      try await ward.run("down")
    }
  }

  @Test(
    "A node whose program does not fit on the disk runs without a copy, and is copied when it fits",
    .enabled(if: JournalPlaceTests.canMount, "mounting a small file system is not permitted here"))
  func smallDisk() async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = ["compiled"]
      let yaml = """
        topology: ward
        nodes:
          compiled: { machine: Button, program: ./compiled, restart: { backoff: { initial: 10ms } } }
        """
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: yaml)
      try await install(tool)
      let state = try ward.directories.state
      try FileSystem.makeDirectories(state, mode: 0o700)
      try #require(mount("tmpfs", state, "tmpfs", 0, "size=4m,mode=700") == 0)
      defer { umount2(state, Int32(MNT_DETACH)) }
      try await ward.up()
      let copies = { FileSystem.entryNames(of: state + "/programs") }
      #expect(copies().isEmpty, "\(copies())")
      let notes = try ward.logs()
      #expect(notes.contains("cannot copy program"), "\(notes)")
      let before = try await ward.pids()["compiled"]
      try await ward.run("kill", "compiled")
      try await ward.await("the node runs again") {
        $0[node: "compiled"]?.isRunning == true && $0[node: "compiled"]?.pid != before
      }
      try #require(mount("tmpfs", state, "tmpfs", UInt(MS_REMOUNT), "size=256m") == 0)
      try await ward.run("restart", "compiled")
      #expect(copies().count == 1, "\(copies())")
      try await ward.run("down")
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
      #expect(
        apply.output.contains("~ compiled  \(TopologyChange.Fate.restarts(.launch(.build)))"),
        "\(apply)")
      for node in try await ward.directory().nodes {
        let pid = try #require(node.pid)
        let environment = FileSystem.text(of: "/proc/\(pid)/environ")
        #expect(environment?.contains("BUILD=second") == true, "\(node.name)")
      }
    }
  }
}
