import PipeJournal
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("A journal on storage shared by several hosts")
struct HeldJournalTests {
  private static let identity = Journal.Identity(topology: "t", node: "door", machine: "m")

  private func open(_ path: String, by incarnation: UInt64) throws -> Journal {
    try Journal(path, identity: Self.identity, durability: .power, heldBy: incarnation)
  }

  private func withPath(_ body: (String) throws -> Void) throws {
    let directory = try TemporaryDirectory()
    defer { withExtendedLifetime(directory) {} }
    try body(directory.path + "/door.sqlite")
  }

  @Test("A process of an earlier incarnation is refused and changes nothing in the journal")
  func superseded() throws {
    try withPath { path in
      do {
        let journal = try open(path, by: 7)
        try journal.record {
          try journal.recordConsumption(of: "orders", stream: 7, applied: 4, closed: false)
        }
      }
      let error = try #require(throws: JournalError.self) { try open(path, by: 6) }
      #expect(error == .superseded(path: path, incarnation: 6, by: 7))
      #expect("\(error)".contains("belongs to incarnation 7 of the node, so incarnation 6"))
      #expect(!error.isTransient)
      for next: UInt64 in [7, 8] {
        #expect(
          try open(path, by: next).contents?.inPipeProgressByPipe["orders"]?.lastApplied == nil)
      }
      #expect(
        try JournalReader(path, node: "door").snapshot(limit: 9).ins.map(\.lastConsumedNumber) == [
          4
        ])
      #expect(throws: JournalError.superseded(path: path, incarnation: 7, by: 8)) {
        try open(path, by: 7)
      }
    }
  }

  @Test(
    "A journal in use cannot be read by other processes, and uses no shared memory")
  func held() throws {
    try withPath { path in
      for incarnation: UInt64 in 1...2 {
        let journal = try open(path, by: incarnation)
        try journal.record {
          try journal.recordConsumption(of: "orders", stream: 7, applied: 4, closed: false)
        }
        #expect(FileSystem.exists(path + "-wal") && !FileSystem.exists(path + "-shm"))
        let error = try #require(throws: JournalError.self) {
          try JournalReader(path, node: "door")
        }
        #expect("\(error)".contains("cannot be read while the node is running"))
        withExtendedLifetime(journal) {}
      }
      #expect(try JournalReader(path, node: "door").machine == "m")
    }
  }
}
