import Glibc
import PipeClient
import PipeJournal
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestTraits
import Testing

@Suite("Backups of a running topology", .timed)
struct BackupTests {
  @Test("A topology that is restored from a backup under load applies every event exactly once")
  func load() async throws {
    try await BackedUpWard.with { ward in
      try await ward.awaitProgress()
      // Each backup replaces the former one.
      for _ in 0..<8 {
        let backup = try await ward.topology.run("backup", "ward.tar")
        #expect(backup.output.contains("ward: ward.tar has 4 journals, "), "\(backup)")
        #expect(backup.output.contains("; without a journal: fly\n"), "\(backup)")
        try Self.expectConsistentCut(ward.path("ward.tar"))
      }
      try await ward.awaitProgress()
      try await ward.restored(ward.path("ward.tar")) { copy in
        try await copy.awaitProgress()
        try await copy.expectEveryNumberOnce()
      }
      try await ward.expectEveryNumberOnce()
    }
  }

  @Test("Nodes that are killed before, during and after a backup lose no event in the backup")
  func kills() async throws {
    try await BackedUpWard.with { ward in
      let nodes = (Array(BackedUpWard.sources.keys) + BackedUpWard.sources.values).sorted()
      var backupCount = 0
      for round in 0..<8 {
        let node = nodes[round % nodes.count]
        let program = try ward.topology.tool.start(["backup", "ward.tar"])
        try await ward.topology.run("kill", node)
        let backup = try await ward.topology.end(of: program)
        if backup.code == 0 { backupCount += 1 }
        try Self.expectConsistentCut(ward.path("ward.tar"))
        try await ward.awaitProgress()
      }
      #expect(backupCount == 8)
      try await ward.restored(ward.path("ward.tar")) { copy in
        try await copy.awaitProgress()
        for node in nodes { try await copy.topology.run("kill", node) }
        try await copy.awaitProgress()
        try await copy.expectEveryNumberOnce()
      }
      try await ward.expectEveryNumberOnce()
    }
  }

  @Test(
    "If the orchestrator is killed during a backup, all nodes continue and no backup is left",
    arguments: ["backup.paused", "backup.taken", "backup.written"])
  func killedOrchestrator(failpoint: String) async throws {
    try await BackedUpWard.with(failpoints: "orchestrator:\(failpoint)=crash@1") { killed in
      let pids = try await killed.topology.pids()
      let backup = try await killed.topology.tool.result(
        of: killed.topology.tool.start(["backup", "ward.tar"]), within: .seconds(60))
      #expect(backup.code == 1, "\(backup)")
      let ward = try killed.withoutFailpoints
      let directories = try ward.topology.directories
      let isGone: Bool? = try await poll(within: .seconds(10)) {
        RunningTopology.find(directories) == nil ? true : nil
      }
      #expect(isGone == true)
      for (node, pid) in pids { #expect(!Self.isStopped(pid), "\(node)") }
      #expect(!FileSystem.exists(directories.state + "/paused"))
      #expect(!FileSystem.exists(ward.path("ward.tar")))
      #expect(!FileSystem.exists(ward.path("ward.tar.new")))
      try await ward.topology.up()
      #expect(try await ward.topology.pids() == pids)
      try await ward.awaitProgress()
      try await ward.topology.run("backup", "ward.tar")
      try await ward.restored(ward.path("ward.tar")) { try await $0.expectEveryNumberOnce() }
      try await ward.expectEveryNumberOnce()
    }
  }

  @Test("If orchestrator and client are killed in the pause, the next orchestrator ends the pause")
  func killedClient() async throws {
    try await BackedUpWard.with(failpoints: "orchestrator:backup.paused=stop@1") { stopped in
      let pids = try await stopped.topology.pids()
      let directories = try stopped.topology.directories
      let orchestrator = try #require(RunningTopology.find(directories)?.pid)
      let backup = try stopped.topology.tool.start(["backup", "ward.tar"])
      let isPaused: Bool? = try await poll(every: .milliseconds(5), within: .seconds(30)) {
        Self.isStopped(orchestrator) ? true : nil
      }
      #expect(isPaused == true)
      backup.signal(.kill)
      try await stopped.topology.killOrchestrator(orchestrator)
      for (node, pid) in pids { #expect(Self.isStopped(pid), "\(node)") }
      let ward = try stopped.withoutFailpoints
      try await ward.topology.up()
      #expect(try await ward.topology.pids() == pids)
      try await ward.awaitProgress()
      try await ward.expectEveryNumberOnce()
    }
  }

  @Test("A backup has the journal of a stopped node, and the restored node accepts its events")
  func stoppedNode() async throws {
    try await BackedUpWard.with { ward in
      try await ward.awaitProgress()
      try await ward.topology.run("stop", "bee")
      try await ward.topology.run("kill", "dog")
      let backup = try await ward.topology.run("backup", "ward.tar")
      #expect(backup.output.contains("ward: ward.tar has 4 journals, "), "\(backup)")
      try Self.expectConsistentCut(ward.path("ward.tar"))
      try await ward.restored(ward.path("ward.tar")) { copy in
        try await copy.awaitProgress()
        try await copy.expectEveryNumberOnce()
      }
    }
  }

  @Test("A restored composite has each synchronized event in all of its nodes or in none")
  func composite() async throws {
    let yaml = """
      topology: party
      program: TestNodes
      nodes:
        ada: { machine: Party }
        bob: { machine: Party }
      composites:
        both: { components: [ada, bob], synchronize: [meet] }
      """
    try await DetachedTopology.with(yaml, name: "party") { party in
      let load = Task {
        let client = try party.client()
        defer { client.close() }
        while !Task.isCancelled { _ = try? await client.synchronize("both", json: "meet") }
      }
      defer { load.cancel() }
      for _ in 0..<5 {
        try await party.run("backup", "party.tar")
        let tool = try CommandLineTool()
        defer { tool.remove() }
        let file = party.tool.directory.path + "/party.tar"
        try await tool.run("restore", file, within: .seconds(60), code: 0)
        let copy = try DetachedTopology(tool: tool, name: "party", yaml: yaml)
        try await copy.up()
        try await copy.run("send", "both", "meet")
        let directory = try await copy.await("both parties have met") {
          $0[node: "ada"]?.status?.state != nil
            && $0[node: "ada"]?.status?.state == $0[node: "bob"]?.status?.state
        }
        #expect(directory[node: "ada"]?.isRunning == true)
        try await copy.run("down")
      }
      load.cancel()
      try await party.run("down")
    }
  }

  @Test("A restored node continues its effect in a new incarnation")
  func effects() async throws {
    try await BackedUpWard.with { ward in
      try await ward.topology.run("backup", "ward.tar")
      try await ward.restored(ward.path("ward.tar")) { copy in
        // The effect of a sending source goes on without another event of a client.
        try await copy.awaitProgress()
        let directory = try await copy.topology.directory()
        #expect(directory[node: "fly"]?.incarnation == 2)
        #expect(directory[node: "ant"]?.incarnation == 2)
        try await copy.expectEveryNumberOnce()
      }
    }
  }

  /// Expects that each journal of a backup fits the journals of its peers: each event is either in
  /// the outbox of its sender or known to its receiver.
  static func expectConsistentCut(
    _ file: String, at location: SourceLocation = #_sourceLocation
  ) throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let directories = try RuntimeDirectories(topology: "ward", roots: directory.roots)
    _ = try TopologyRestore(reading: file).restore(to: directories)
    for (source, sink) in BackedUpWard.sources {
      let sender = try JournalReader(directories.journal(of: source), node: source)
        .snapshot(limit: 1)
      let receiver = try JournalReader(directories.journal(of: sink), node: sink).snapshot(limit: 1)
      let out = try #require(sender.outs.first, sourceLocation: location)
      let consumed = receiver.ins.first?.lastConsumedNumber ?? 0
      #expect(
        consumed <= out.queued, "'\(sink)' has events that '\(source)' has not sent",
        sourceLocation: location)
      #expect(
        out.acknowledged <= consumed, "'\(source)' has deleted events that '\(sink)' lacks",
        sourceLocation: location)
    }
  }

  /// Whether a process is stopped by a signal.
  static func isStopped(_ pid: Int32) -> Bool {
    guard let text = FileSystem.text(of: "/proc/\(pid)/stat"), let end = text.lastIndex(of: ")")
    else { return false }
    return text[end...].dropFirst(2).first == "T"
  }
}
