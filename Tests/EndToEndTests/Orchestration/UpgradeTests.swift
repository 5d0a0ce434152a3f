import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

/// A topology whose two programs are scripts. A rewritten script is a program that was built again.
private struct UpgradedWard {
  let topology: DetachedTopology

  private static let yaml = """
    topology: ward
    nodes:
      nurse: { machine: Button, program: ./sender, restart: { backoff: { initial: 10ms } } }
      patient: { machine: Fragile, program: ./receiver, restart: { backoff: { initial: 10ms } } }
    pipes:
      - { from: nurse, when: pressed, to: patient, send: touch, name: bell }
    """

  /// Starts the topology with the first version of both programs.
  static func with(
    failpoints: String? = nil, _ body: (UpgradedWard) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = ["nurse", "patient"]
      tool.environment["PIPERUNTIME_FAILPOINTS"] = failpoints
      let ward = UpgradedWard(
        topology: try DetachedTopology(tool: tool, name: "ward", yaml: yaml))
      try ward.build("first", "sender", "receiver")
      try await ward.topology.up()
      try await body(ward)
      try await ward.topology.run("down")
    }
  }

  /// Returns the same topology without failpoints.
  var withoutFailpoints: UpgradedWard {
    get throws {
      var tool = topology.tool
      tool.environment["PIPERUNTIME_FAILPOINTS"] = nil
      return UpgradedWard(
        topology: try DetachedTopology(tool: tool, name: "ward", yaml: Self.yaml))
    }
  }

  /// Replaces programs by another version.
  /// - Parameter padding: The length of a comment at the end. Unit: bytes.
  func build(_ version: String, _ programs: String..., padding: Int = 0) throws {
    for program in programs {
      try topology.tool.directory.write(
        """
        #!/bin/sh
        BUILD=\(version) exec "\(CommandLineTool.products)/TestNodes" "$@"
        #\(String(repeating: " ", count: padding))

        """, to: program, mode: 0o700)
    }
  }

  /// Replaces the receiver by a program that describes its machines and reads journals, but damages
  /// its journal and ends when it is started.
  /// - Parameter end: The command with which the program ends.
  func breakReceiver(_ end: String = "exit 3") throws {
    let journal = try topology.directories.journal(of: "patient")
    try topology.tool.directory.write(
      """
      #!/bin/sh
      case "$1" in describe|try-journals) exec "\(CommandLineTool.products)/TestNodes" "$@" ;; esac
      rm -f '\(journal)-wal'
      echo damaged > '\(journal)'
      echo damaged > '\(journal).step'
      \(end)

      """, to: "receiver", mode: 0o700)
  }

  /// Presses the button, and waits until the patient has taken the steps of all presses so far. The
  /// initial state sends an event, too.
  func press(total: Int, at location: SourceLocation = #_sourceLocation) async throws {
    try await topology.run("send", "nurse", "press", at: location)
    try await expect(total, at: location)
  }

  func expect(_ total: Int, at location: SourceLocation = #_sourceLocation) async throws {
    let client = try topology.client()
    defer { client.close() }
    var last: TopologyDirectory?
    let isReached: Bool? = try await poll(within: .seconds(30)) {
      let directory = try await client.directory(fresh: true)
      last = directory
      return directory[node: "patient"]?.status?.state == [
        "well": ["steps": .integer(Int64(total))]
      ]
        ? true : nil
    }
    #expect(isReached == true, "\(String(describing: last))", sourceLocation: location)
  }

  /// Returns the version of the program that each node runs.
  func builds() async throws -> [String: String] {
    var builds: [String: String] = [:]
    for (node, pid) in try await topology.pids() {
      let environment = FileSystem.text(of: "/proc/\(pid)/environ") ?? ""
      for version in ["first", "second"] where environment.contains("BUILD=\(version)\0") {
        builds[node] = version
      }
    }
    return builds
  }
}

@Suite("Upgrades of programs by 'apply'", .timed)
struct UpgradeTests {
  @Test("'apply' upgrades the receiver of events before their sender")
  func order() async throws {
    try await UpgradedWard.with { ward in
      try await ward.press(total: 2)
      let before = try await ward.topology.directory()
      try ward.build("second", "sender", "receiver")
      let applied = try await ward.topology.run("apply", "ward.yaml")
      #expect(applied.output.contains("~ nurse    restarts: its program was rebuilt"), "\(applied)")
      #expect(try await ward.builds() == ["nurse": "second", "patient": "second"])
      let after = try await ward.topology.directory()
      let patient = try #require(after[node: "patient"]?.startedAt)
      let nurse = try #require(after[node: "nurse"]?.startedAt)
      #expect(patient < nurse)
      for node in after.nodes {
        #expect(node.programVersion != before[node: node.name]?.programVersion)
      }
      try await ward.press(total: 3)
      #expect(
        FileSystem.entryNames(of: try ward.topology.directories.state + "/programs").count == 2)
    }
  }

  @Test("After '--pause-after', the other nodes keep their programs until the next 'apply'")
  func pause() async throws {
    try await UpgradedWard.with { ward in
      try await ward.press(total: 2)
      try ward.build("second", "sender", "receiver")
      let paused = try await ward.topology.run("apply", "--pause-after", "patient", "ward.yaml")
      #expect(paused.error.contains("upgrades the other nodes: nurse"), "\(paused)")
      #expect(try await ward.builds() == ["nurse": "first", "patient": "second"])
      let pids = try await ward.topology.pids()
      try await ward.topology.run("kill", "nurse")
      try await ward.topology.await("'nurse' runs again") {
        $0[node: "nurse"]?.isRunning == true && $0[node: "nurse"]?.pid != pids["nurse"]
      }
      #expect(try await ward.builds() == ["nurse": "first", "patient": "second"])
      try await ward.press(total: 3)
      // The next orchestrator knows which node runs which version.
      try await ward.topology.killOrchestrator()
      try await ward.topology.up()
      #expect(try await ward.builds() == ["nurse": "first", "patient": "second"])
      try await ward.press(total: 4)
      try await ward.topology.run("apply", "ward.yaml")
      #expect(try await ward.builds() == ["nurse": "second", "patient": "second"])
      try await ward.press(total: 5)
    }
  }

  @Test("'--pause-after' refuses a node whose program has not changed")
  func pauseRefused() async throws {
    try await UpgradedWard.with { ward in
      try ward.build("second", "sender")
      for (node, reason) in [
        ("patient", "the program of node 'patient' has not changed"),
        ("doctor", "there is no node 'doctor'"),
      ] {
        let refused = try await ward.topology.run(
          "apply", "--pause-after", node, "ward.yaml", code: 1)
        #expect(refused.error.contains("--pause-after: \(reason)"), "\(refused)")
      }
      #expect(try await ward.builds() == ["nurse": "first", "patient": "first"])
    }
  }

  @Test("A node that does not become ready on a new program returns to its old program and journal")
  func rollBack() async throws {
    try await UpgradedWard.with { ward in
      try await ward.press(total: 2)
      let before = try await ward.topology.pids()
      try ward.breakReceiver()
      try ward.build("second", "sender")
      let failed = try await ward.topology.run("apply", "ward.yaml", code: 1)
      #expect(
        failed.error.contains("node 'patient' did not become ready on the new program"), "\(failed)"
      )
      #expect(failed.error.contains("exit code 3"), "\(failed)")
      #expect(failed.error.contains("/logs/patient.log"), "\(failed)")
      #expect(failed.error.contains("not upgraded: 'nurse'"), "\(failed)")
      #expect(try await ward.builds() == ["nurse": "first", "patient": "first"])
      let after = try await ward.topology.pids()
      #expect(after["nurse"] == before["nurse"])
      #expect(after["patient"] != before["patient"])
      try await ward.press(total: 3)
      // A crash after the failed upgrade does not try the new program again.
      try await ward.topology.run("kill", "patient")
      try await ward.press(total: 4)
      #expect(try await ward.builds() == ["nurse": "first", "patient": "first"])
      try ward.build("second", "receiver")
      try await ward.topology.run("apply", "ward.yaml")
      #expect(try await ward.builds() == ["nurse": "second", "patient": "second"])
      try await ward.press(total: 5)
    }
  }

  @Test(
    "If the orchestrator is killed during an upgrade, each node runs the old or the new program",
    arguments: [
      ("program.copied", 3), ("upgrade.recorded", 1), ("upgrade.copied", 1),
      ("upgrade.switched", 1),
      ("upgrade.ready", 1), ("upgrade.recorded", 2), ("upgrade.ready", 2), ("upgrade.restored", 1),
    ])
  func killedOrchestrator(failpoint: String, hit: Int) async throws {
    try await UpgradedWard.with(failpoints: "orchestrator:\(failpoint)=crash@\(hit)") { killed in
      try await killed.press(total: 2)
      if failpoint == "upgrade.restored" {
        try killed.breakReceiver()
      } else {
        try killed.build("second", "sender", "receiver")
      }
      let apply = try await killed.topology.tool.result(
        of: killed.topology.tool.start(["apply", "ward.yaml"]), within: .seconds(60))
      #expect(apply.code != 0, "\(apply)")
      let ward = try killed.withoutFailpoints
      // 'apply' ends when its connection is lost, possibly before the kernel has released the lock.
      let directories = try ward.topology.directories
      let isGone: Bool? = try await poll(within: .seconds(10)) {
        RunningTopology.find(directories) == nil ? true : nil
      }
      #expect(isGone == true)
      try await ward.topology.up()
      let builds = try await ward.builds()
      #expect(builds.count == 2, "\(builds)")
      try await ward.press(total: 3)
      try ward.build("second", "sender", "receiver")
      try await ward.topology.run("apply", "ward.yaml")
      #expect(try await ward.builds() == ["nurse": "second", "patient": "second"])
      try await ward.press(total: 4)
      let state = try ward.topology.directories.state
      #expect(!FileSystem.exists(state + "/upgrade.json") && !FileSystem.exists(state + "/upgrade"))
    }
  }

  @Test(
    "If the orchestrator is killed while a new program starts, its successor restores the journal")
  func killedDuringStart() async throws {
    try await UpgradedWard.with { ward in
      try await ward.press(total: 2)
      try ward.breakReceiver("exec sleep 600")
      let apply = try ward.topology.tool.start(["apply", "ward.yaml"])
      let journal = try ward.topology.directories.journal(of: "patient") + ".step"
      let isDamaged: Bool? = try await poll(every: .milliseconds(5), within: .seconds(30)) {
        FileSystem.text(of: journal) == "damaged\n" ? true : nil
      }
      #expect(isDamaged == true)
      try await ward.topology.killOrchestrator()
      _ = try await ward.topology.tool.result(of: apply, within: .seconds(60))
      try await ward.topology.up()
      #expect(try await ward.builds() == ["nurse": "first", "patient": "first"])
      try await ward.press(total: 3)
    }
  }

  @Test(
    "If the disk is full, a node keeps its program and its journal until there is space",
    .enabled(if: canMount, "mounting a small file system is not permitted here"),
    arguments: ["programs", "upgrade.new"])
  func fullDisk(directory: String) async throws {
    try await UpgradedWard.with { ward in
      try await ward.press(total: 2)
      let path = try ward.topology.directories.state + "/" + directory
      try FileSystem.makeDirectories(path, mode: 0o700)
      try #require(mount("tmpfs", path, "tmpfs", 0, "size=16k,mode=700") == 0)
      var isMounted = true
      defer { if isMounted { umount2(path, Int32(MNT_DETACH)) } }
      try ward.build("second", "receiver", padding: 50_000)
      let failed = try await ward.topology.run("apply", "ward.yaml", code: 1)
      umount2(path, Int32(MNT_DETACH))
      isMounted = false
      #expect(failed.error.contains("node 'patient' keeps its program"), "\(failed)")
      #expect(failed.error.contains("No space left on device"), "\(failed)")
      #expect(try await ward.builds() == ["nurse": "first", "patient": "first"])
      try await ward.press(total: 3)
      try await ward.topology.run("apply", "ward.yaml")
      #expect(try await ward.builds() == ["nurse": "first", "patient": "second"])
      try await ward.press(total: 4)
    }
  }

  private static let canMount: Bool = {
    guard let directory = try? TestDirectory() else { return false }
    defer { directory.remove() }
    guard mount("tmpfs", directory.path, "tmpfs", 0, "size=64k") == 0 else { return false }
    umount2(directory.path, Int32(MNT_DETACH))
    return true
  }()
}
