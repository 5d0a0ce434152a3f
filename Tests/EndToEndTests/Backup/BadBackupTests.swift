import Glibc
import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestTraits
import Testing

@Suite("Backups that cannot be made or restored", .timed)
struct BadBackupTests {
  private static func backup(_ ward: BackedUpWard) async throws -> [UInt8] {
    try await ward.awaitProgress()
    try await ward.topology.run("backup", "ward.tar")
    return try #require(FileSystem.contents(of: ward.path("ward.tar"), limit: .max))
  }

  private static func error(_ restore: @autoclosure () throws -> Any) -> BackupError? {
    do { _ = try restore() } catch { return error as? BackupError }
    return nil
  }

  @Test("'restore' refuses a file that was cut off, changed, or is no backup, and restores nothing")
  func damaged() async throws {
    try await BackedUpWard.with { ward in
      let bytes = try await Self.backup(ward)
      let file = ward.path("other.tar")
      for count in [600, 5_000, bytes.count / 2, bytes.count - 513, bytes.count - 3_000] {
        try FileSystem.replace(file, with: bytes.prefix(count))
        #expect(
          Self.error(try TopologyRestore(reading: file)) == .incomplete(file: file), "\(count)")
      }
      var changed = bytes
      let position = 20_000
      changed[position] ^= 1
      try FileSystem.replace(file, with: changed)
      guard case .damaged(file, _)? = Self.error(try TopologyRestore(reading: file)) else {
        Issue.record("a changed byte at \(position) was not found")
        return
      }
      for text in ["", "not a backup", String(repeating: "x", count: 2_000)] {
        try FileSystem.replace(file, with: Array(text.utf8))
        #expect(Self.error(try TopologyRestore(reading: file)) == .notABackup(file: file))
      }
      // An archive of another program.
      let tar = try ward.topology.tool.start(
        program: "/bin/tar", ["--format=ustar", "-cf", "other.tar", "ward.yaml"])
      try await ward.topology.end(of: tar)
      #expect(Self.error(try TopologyRestore(reading: file)) == .notABackup(file: file))
      let tool = try CommandLineTool()
      defer { tool.remove() }
      let refused = try await tool.run("restore", file, code: 2)
      #expect(refused.error.contains("\(BackupError.notABackup(file: file))"), "\(refused)")
      #expect(FileSystem.entryNames(of: tool.directory.path + "/state").isEmpty)
    }
  }

  @Test("'tar' lists the files of a backup, and the manifest is the last one")
  func tar() async throws {
    try await BackedUpWard.with { ward in
      _ = try await Self.backup(ward)
      let tar = try ward.topology.tool.start(program: "/bin/tar", ["-tf", "ward.tar"])
      let listed = try await ward.topology.end(of: tar)
      #expect(
        listed.output.split(separator: "\n").map(String.init) == [
          "topology/ward.yaml", "journals/dog.sqlite", "journals/cat.sqlite",
          "journals/bee.sqlite", "journals/ant.sqlite", "manifest.json",
        ], "\(listed)")
    }
  }

  @Test("'restore' refuses existing journals, a running topology, and a backup of another topology")
  func refusals() async throws {
    try await BackedUpWard.with { ward in
      _ = try await Self.backup(ward)
      let file = ward.path("ward.tar")
      let running = try await ward.topology.run("restore", "ward.tar", code: 1)
      #expect(running.error.contains("topology 'ward' is already running"), "\(running)")
      let tool = try CommandLineTool()
      defer { tool.remove() }
      let other = try await tool.run("restore", "-p", "shop", file, code: 2)
      #expect(
        other.error.contains(
          "\(BackupError.otherTopology(file: file, found: "ward", expected: "shop"))"), "\(other)")
      let directory = tool.directory.path + "/files"
      let first = try await tool.run("restore", file, "--directory", directory, code: 0)
      #expect(first.output.contains("orchestrator up \(directory)/ward.yaml"), "\(first)")
      #expect(FileSystem.text(of: directory + "/ward.yaml") == BackedUpWard.yaml)
      let names = FileSystem.entryNames(of: tool.directory.path + "/state/ward/journals")
      let second = try await tool.run("restore", file, code: 1)
      let nodes = ["ant", "bee", "cat", "dog"]
      #expect(
        second.error.contains("\(BackupError.journalsExist(topology: "ward", nodes: nodes))"),
        "\(second)")
      #expect(FileSystem.entryNames(of: tool.directory.path + "/state/ward/journals") == names)
      // After a reset, the backup can be restored again.
      try await tool.run("reset", "--all", "-p", "ward", code: 0)
      try await tool.run("restore", file, code: 0)
      #expect(FileSystem.entryNames(of: tool.directory.path + "/state/ward/journals") == names)
    }
  }

  @Test("'backup' overwrites no file except a backup, and reports a missing directory")
  func destination() async throws {
    try await BackedUpWard.with { ward in
      let file = ward.path("ward.yaml")
      let refused = try await ward.topology.run("backup", "ward.yaml", code: 1)
      #expect(refused.error.contains("\(BackupError.otherFile(file: file))"), "\(refused)")
      #expect(FileSystem.text(of: file) == BackedUpWard.yaml)
      let missing = try await ward.topology.run("backup", "no/such/ward.tar", code: 1)
      #expect(missing.error.contains("No such file or directory"), "\(missing)")
      try await ward.awaitProgress()
    }
  }

  @Test(
    "If the disk of the backup is full, the former backup stays, and the nodes continue",
    .enabled(if: canMount, "mounting a small file system is not permitted here"),
    arguments: [2_000, 200])
  func fullDisk(kibibytes: Int) async throws {
    try await BackedUpWard.with { ward in
      try await ward.awaitProgress()
      let path = ward.path("small")
      try FileSystem.makeDirectories(path)
      try #require(mount("tmpfs", path, "tmpfs", 0, "size=\(kibibytes)k,mode=700") == 0)
      defer { umount2(path, Int32(MNT_DETACH)) }
      let failed = try await ward.topology.run("backup", "small/ward.tar", code: 1)
      #expect(failed.error.contains("MiB left; free disk space"), "\(failed)")
      #expect(FileSystem.entryNames(of: path).isEmpty)
      try await ward.awaitProgress()
      try await ward.topology.run("backup", "ward.tar")
    }
  }

  @Test("A damaged journal makes the backup fail with an error that names the journal")
  func damagedJournal() async throws {
    try await BackedUpWard.with { ward in
      try await ward.topology.run("stop", "cat")
      let journal = try ward.topology.directories.journal(of: "cat")
      try FileSystem.replace(journal, with: Array("damaged".utf8))
      let failed = try await ward.topology.run("backup", "ward.tar", code: 1)
      #expect(failed.error.contains("node 'cat' cannot be backed up: the journal"), "\(failed)")
      #expect(!FileSystem.exists(ward.path("ward.tar")))
      let isRemoved: Bool? = try await poll(within: .seconds(10)) {
        FileSystem.exists(ward.path("ward.tar.new")) ? nil : true
      }
      #expect(isRemoved == true)
    }
  }

  static let canMount: Bool = {
    guard let directory = try? TestDirectory() else { return false }
    defer { directory.remove() }
    guard mount("tmpfs", directory.path, "tmpfs", 0, "size=64k") == 0 else { return false }
    umount2(directory.path, Int32(MNT_DETACH))
    return true
  }()
}
