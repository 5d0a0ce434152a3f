import Glibc
import PipeJournal
import PipeMachines
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("Reading a journal")
struct JournalReaderTests {
  private func withFile(
    _ bytes: [UInt8]?, suffix: String = "", _ body: (String) throws -> Void
  ) throws {
    let directory = try TemporaryDirectory()
    defer { withExtendedLifetime(directory) {} }
    let path = directory.path + "/door.sqlite"
    if let bytes {
      let descriptor = open(path + suffix, O_WRONLY | O_CREAT, 0o600)
      defer { close(descriptor) }
      #expect(write(descriptor, bytes, bytes.count) == bytes.count)
    }
    try body(path)
  }

  @Test("A missing journal and a damaged journal cause different errors")
  func missing() throws {
    try withFile(nil) { path in
      #expect(throws: JournalError.missing(path: path, node: "door")) {
        try JournalReader(path, node: "door")
      }
      #expect(!FileSystem.exists(path))
    }
    try withFile(Array("log".utf8), suffix: "-wal") { path in
      let reason = "the file is missing, but its '-wal' file exists"
      #expect(throws: JournalError.damaged(path: path, node: "door", reason: reason)) {
        try JournalReader(path, node: "door")
      }
    }
  }

  @Test(
    "A file that is not a journal is refused, whatever its content",
    arguments: [[], Array("hello".utf8), [UInt8](repeating: 0, count: 8192)])
  func garbage(bytes: [UInt8]) throws {
    try withFile(bytes) { path in
      let error = try #require(throws: JournalError.self) { try JournalReader(path, node: "door") }
      guard case .damaged(path, "door", _) = error else {
        Issue.record("\(error)")
        return
      }
      #expect("\(error)".contains("'orchestrator reset door'"))
      #expect(!error.isTransient)
    }
  }

  @Test("A journal records the last event received through a pipe, whether consumed or committed")
  func taken() throws {
    try withFile(nil) { path in
      let journal = try Journal(
        path, identity: .init(topology: "t", node: "door", machine: "composite"),
        durability: .process)
      let request = RequestID(pipe: "orders", stream: 7, sequence: 5)
      func taken(_ pipe: String, _ stream: UInt64) throws -> UInt64 {
        try JournalReader(path, node: "door").lastAcceptedNumber(
          of: pipe, stream: stream,
          caller: RequestID(pipe: pipe, stream: stream, sequence: 0).caller)
      }
      #expect(try taken("orders", 7) == 0)
      try journal.record {
        try journal.recordConsumption(of: "orders", stream: 7, applied: 4, closed: false)
      }
      #expect(try taken("orders", 7) == 4)
      try journal.record {
        try journal.recordCommit(
          CommitRecord(
            transaction: TransactionID(epoch: 1, sequence: 1), request: request, moves: [:]))
      }
      #expect(try taken("orders", 7) == 5)
      #expect(try taken("orders", 8) == 0 && taken("other", 7) == 0)
    }
  }

  @Test("A redirected pipe's new receiver is recorded with the last event for the former receiver")
  func receivers() throws {
    try withFile(nil) { path in
      let journal = try Journal(
        path, identity: .init(topology: "t", node: "door", machine: "m"), durability: .process)
      #expect(try journal.recordedReceivers() == [:])
      try journal.record {
        try journal.recordReceiver(of: "orders", .init("motor"))
        try journal.recordReceiver(of: "a b", .init("lift", lastNumberBeforeRedirection: 12))
      }
      #expect(
        try journal.recordedReceivers()
          == ["orders": .init("motor"), "a b": .init("lift", lastNumberBeforeRedirection: 12)])
      #expect(journal.path(ofNode: "motor") == path.replacing("door", with: "motor"))
    }
  }

  @Test("Resetting a journal acquires its lock and removes its files")
  func files() throws {
    try withFile(Array("x".utf8)) { path in
      for suffix in ["-wal", "-shm", ".step", ".new"] {
        close(creat(path + suffix, 0o600))
      }
      let held = try JournalFiles(path, node: "door")
      #expect(throws: JournalError.locked(path: path, pid: nil)) {
        try JournalFiles(path, node: "door")
      }
      try held.remove()
      let left = Set(FileSystem.entryNames(of: FileSystem.parentDirectory(of: path)))
      #expect(left == ["door.sqlite.reset", "door.sqlite.step"])
      #expect(JournalReader.nodesWithJournals(in: FileSystem.parentDirectory(of: path)) == [])
    }
  }

  @Test(
    "A journal error names the file and a remedy",
    arguments: [
      (.missing(path: "/j/door.sqlite", node: "door"), "has never run"),
      (.inaccessible(path: "/j/door.sqlite", node: "door", reason: "no"), "start the node again"),
      (.full(path: "/j/door.sqlite"), "free disk space"),
      (.damaged(path: "/j/door.sqlite", node: "door", reason: "no"), "orchestrator reset door"),
      (.otherVersion(path: "/j/door.sqlite", node: "door", found: 2), "orchestrator reset door"),
      (
        .mismatch(
          path: "/j/door.sqlite", node: "door", attribute: "node", found: "a", expected: "door"),
        "orchestrator reset door"
      ),
      (
        .undecodable(path: "/j/door.sqlite", node: "door", problem: "no"), "orchestrator reset door"
      ),
      (.locked(path: "/j/door.sqlite", pid: 7), "process 7"),
      (.superseded(path: "/j/door.sqlite", incarnation: 6, by: 7), "another orchestrator"),
      (.failed(path: "/j/door.sqlite", reason: "no"), "no"),
    ] as [(JournalError, String)])
  func wording(error: JournalError, wayOut: String) {
    #expect("\(error)".contains("/j/door.sqlite"))
    #expect("\(error)".contains(wayOut))
  }
}
