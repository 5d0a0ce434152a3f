import PipeJournal
import PipeMachines
import PipeWire
import TestSupport
import Testing

@Suite("The retention of records")
struct JournalRetentionTests {
  /// A journal with records at given times.
  private final class Bench {
    let directory: TemporaryDirectory
    private(set) var journal: Journal
    private(set) var version: UInt64 = 0

    init(_ retention: JournalRetention, _ durability: Durability = .process) throws {
      directory = try TemporaryDirectory()
      journal = try Self.open(directory, retention, durability)
    }

    private static func open(
      _ directory: TemporaryDirectory, _ retention: JournalRetention, _ durability: Durability
    ) throws -> Journal {
      try Journal(
        directory.path + "/door.sqlite",
        identity: .init(topology: "t", node: "door", machine: "m"), durability: durability,
        keeping: retention)
    }

    func record(_ count: Int, byteCount: Int = 10, seconds: Int64 = 0) throws {
      for _ in 0..<count {
        version += 1
        let state = "\"\(version)" + String(repeating: "x", count: byteCount) + "\""
        try journal.record {
          try journal.recordState(
            to: Array(state.utf8), version: version, steps: 1, cause: "request",
            time: seconds * 1_000_000_000, incarnation: 1)
          try journal.recordAnswer(
            RequestKey(client: 7, id: version), version: version, state: [])
        }
      }
      try journal.writePendingRecords()
    }

    /// Opens the journal with other limits, as the next process does after a change of the file.
    func reopen(_ retention: JournalRetention) throws {
      journal.releaseLock()
      journal = try Self.open(directory, retention, journal.durability)
    }

    var size: JournalSize { JournalSize(of: "door", journal: journal.path) }
    var recordCount: Int64 { size.rows?.records ?? -1 }
    var versions: [UInt64] {
      get throws {
        try JournalReader(journal.path, node: "door").snapshot(limit: .max).records.map(\.version)
      }
    }
  }

  @Test(
    "A journal keeps the last records, up to a quarter or 250 more",
    arguments: [8, 100, 1_000])
  func count(limit: Int) throws {
    let bench = try Bench(JournalRetention(records: limit))
    var largest: Int64 = 0
    for _ in 0..<12 {
      try bench.record(limit / 4 + 100)
      largest = max(largest, bench.recordCount)
      #expect(bench.recordCount >= min(Int64(bench.version), Int64(limit)))
      #expect(try bench.versions.last == bench.version)
    }
    #expect(largest <= Int64(limit + min(limit / 4, 250) + 1))
    // No limit applies to the numbers of requests.
    #expect(bench.size.rows?.requests == Int64(bench.version))
  }

  @Test("A journal deletes records that are too old, and keeps the last eight of any age")
  func age() throws {
    let bench = try Bench(JournalRetention(recordAge: .seconds(100)))
    try bench.record(50, seconds: 1_000)
    try bench.record(50, seconds: 1_060)
    #expect(bench.recordCount == 100)
    // The first records are too old, the others are not.
    try bench.record(1, seconds: 1_120)
    #expect(try bench.versions == Array(51...101))
    try bench.record(1, seconds: 9_000)
    #expect(try bench.versions == Array(95...102))
    // The clock was set back: records of the future are not old.
    try bench.record(20, seconds: 500)
    #expect(try bench.versions.suffix(20) == Array(103...122)[...])
  }

  @Test("After a lower limit, a journal deletes its records gradually, and uses no more pages")
  func lowerLimit() throws {
    let bench = try Bench(JournalRetention(records: 4_000))
    try bench.record(4_000, byteCount: 1_000)
    let before = bench.size
    #expect(before.rows?.records == 4_000)
    try bench.reopen(JournalRetention(records: 100))
    var counts = [bench.recordCount]
    while let last = counts.last, last > 200 {
      try bench.record(128)
      try #require(bench.recordCount < last, "the number of records does not fall: \(counts)")
      counts.append(bench.recordCount)
    }
    // Each deletion is small, so that the node continues soon. The last one may follow another.
    for (former, next) in zip(counts, counts.dropFirst()) { #expect(former - next < 2_000) }
    #expect(counts.count > 3)
    while bench.size.unused > 0 {
      let former = bench.size.unused
      try bench.record(200)
      try #require(bench.size.unused < former, "\(former) bytes remain unused")
    }
    #expect(try bench.versions.last == bench.version)
  }

  @Test("The size of a journal counts its rows by kind, with or without a process of the node")
  func size() throws {
    let bench = try Bench(JournalRetention())
    try bench.record(3)
    try bench.journal.record {
      try bench.journal.recordDeadLetter(
        DeadLetter(id: 1, pipe: "p", sequence: 1, event: "e", reason: "r", version: 3, time: 0))
      try bench.journal.recordQueuedEvents(
        of: "out", last: 2, count: 2, events: Array("1\n2\n".utf8))
    }
    try bench.journal.writePendingRecords()
    let rows = try #require(bench.size.rows)
    #expect(rows.records == 3 && rows.deadLetters == 1 && rows.outboxEvents == 2)
    #expect(rows.requests == 3 && rows.effects == 0 && rows.instances == 0 && rows.commits == 0)
    #expect(bench.size.failure == nil)
    #expect(bench.size.space.database > 0 && bench.size.space.recordLog > 0)
    let disk = try #require(bench.size.space.disk)
    #expect(disk.size > 0 && (0...disk.size).contains(disk.free))
    #expect((0...100).contains(disk.usedPercent))
    bench.journal.releaseLock()
    #expect(bench.size.rows == rows)
    let missing = JournalSize(of: "x", journal: bench.directory.path + "/x.sqlite")
    #expect(missing.rows == nil && missing.failure != nil && missing.space.total == 0)
  }
}
