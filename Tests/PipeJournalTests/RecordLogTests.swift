import Glibc
import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("Records that are only in a journal's log")
struct RecordLogTests {
  private static let suffixes = ["", "-wal", "-shm", ".step"]

  /// A journal, and a directory for copies of its files as the next process would find them after a
  /// kill.
  private final class Bench {
    let directory: TemporaryDirectory
    let journal: Journal

    init(_ durability: Durability = .process) throws {
      directory = try TemporaryDirectory()
      journal = try Journal(
        directory.path + "/door.sqlite", identity: Self.identity, durability: durability)
    }

    static var identity: Journal.Identity { .init(topology: "t", node: "door", machine: "m") }

    /// Returns the path of a copy.
    func killed() throws -> String {
      let copy = directory.path + "/copy.sqlite"
      for suffix in RecordLogTests.suffixes {
        unlink(copy + suffix)
        guard let bytes = RecordLogTests.bytes(journal.path + suffix) else { continue }
        try FileSystem.replace(copy + suffix, with: bytes)
      }
      return copy
    }
  }

  private static func bytes(_ path: String) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    return try? FileSystem.read(descriptor, limit: 1 << 26)
  }

  /// The content of a journal, without its name and times.
  private struct Holdings: Equatable {
    var records: [JournalSnapshot.Record]
    var ins: [JournalSnapshot.InPipe]
    var outs: [JournalSnapshot.OutPipe]
    var effects: [JournalSnapshot.Effect]
    var deadLetters: [DeadLetter]
    var counts: [Int]
    var components: [String: [UInt8]] = [:]

    init(_ path: String) throws {
      let reader = try JournalReader(path, node: "door")
      let snapshot = try reader.snapshot(limit: 2_000)
      records = snapshot.records
      ins = snapshot.ins
      outs = snapshot.outs
      effects = snapshot.effects.map { effect in
        var effect = effect
        effect.time = 0
        return effect
      }
      deadLetters = try reader.deadLetters(after: 0, limit: 1_000)
      counts = [
        snapshot.deadLetterCount, snapshot.requestCount, snapshot.unacknowledgedCount,
        Int(snapshot.lostDeadLetters),
      ]
    }
  }

  /// A source of the same random records for several journals.
  private struct RandomRecords {
    var generator: SplitMix64
    var version: UInt64 = 0
    var queued: [String: UInt64] = [:]
    var acknowledged: [String: UInt64] = [:]
    var effects: [UInt64] = []
    var postponed: [Int64] = []
    var deadLetters: [UInt64] = []
    var lastLetter: UInt64 = 0
    var answers: [UInt64] = []

    init(seed: UInt64) { generator = SplitMix64(seed: seed) }

    /// Returns the events, each with a line end.
    static func events(after: UInt64, through last: UInt64) -> [String] {
      last > after ? (after + 1...last).map { "\"tick \($0)\"\n" } : []
    }

    mutating func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &generator) == 0 }

    /// Returns a function that writes one record into a journal.
    mutating func next() -> (Journal) throws -> Void {
      var parts: [(Journal) throws -> Void] = []
      version += 1
      let number = version
      let size = chance(20) ? 60_000 : 20
      let state = Array("{\"counting\":{\"text\":\"\(String(repeating: "x", count: size))\"}}".utf8)
      parts.append {
        try $0.recordState(
          to: state, version: number, steps: 1, cause: "in", time: 5, incarnation: 1)
      }
      for pipe in ["in", "again"] where chance(2) {
        parts.append {
          try $0.recordConsumption(of: pipe, stream: 9, applied: number, closed: false)
        }
      }
      for pipe in ["out", "other"] where chance(2) {
        let count = Int.random(in: 1...5, using: &generator)
        let last = queued[pipe, default: 0] + UInt64(count)
        queued[pipe] = last
        let events = Array(Self.events(after: last - UInt64(count), through: last).joined().utf8)
        let trims = chance(2)
        if trims {
          let done = acknowledged[pipe, default: 0]
          acknowledged[pipe] = UInt64.random(in: done..<last, using: &generator)
        }
        let done = acknowledged[pipe, default: 0]
        parts.append {
          try $0.recordQueuedEvents(of: pipe, last: last, count: count, events: events)
        }
        parts.append {
          try $0.recordSendProgress(of: pipe, queued: last, acknowledged: done, trims: trims)
        }
      }
      if chance(3) {
        effects.append(number)
        parts.append {
          try $0.recordEffectStart(
            EffectOrigin(version: number), state: Array("1".utf8), progress: BootClock.now)
        }
      } else if let first = effects.first, chance(2) {
        effects.removeFirst()
        parts.append { try $0.recordEffectEnd(EffectOrigin(version: first)) }
      }
      if chance(3) {
        postponed.append(Int64(number))
        parts.append {
          try $0.recordConsumption(of: "in", stream: 9, applied: number, closed: false)
          try $0.recordPostponedEvent(Int64(number), "in", number, event: Array("\"late\"".utf8))
        }
      } else if let first = postponed.first, chance(2) {
        postponed.removeFirst()
        parts.append { try $0.removePostponedEvent(first) }
      }
      if chance(4) {
        lastLetter += 1
        deadLetters.append(lastLetter)
        let deadLetter = DeadLetter(
          id: lastLetter, pipe: "in", sequence: number, event: "no", reason: "guard", state: nil,
          version: number, time: 3)
        parts.append { try $0.recordDeadLetter(deadLetter) }
      } else if let first = deadLetters.first, chance(3) {
        deadLetters.removeFirst()
        parts.append { try $0.removeDeadLetter(first) }
      }
      if chance(3) {
        answers.append(number)
        parts.append {
          try $0.recordAnswer(RequestKey(client: 1, id: number), version: number, state: [0x31])
        }
      } else if let first = answers.first, chance(2) {
        answers.removeFirst()
        parts.append { try $0.recordAcknowledgement(of: 1, before: first + 1) }
      }
      if chance(3) {
        let client = 2 + number % 3
        parts.append {
          try $0.recordAnswer(
            RequestKey(client: client, id: number), version: number, state: [0x32])
        }
      } else if chance(3) {
        parts.append { try $0.recordForgottenClient(2 + number % 3, through: number - 1) }
      }
      if chance(5) {
        let commit = CommitRecord(
          transaction: TransactionID(epoch: 1, sequence: number),
          request: RequestID(caller: "c", number: number), moves: [:])
        parts.append { try $0.recordCommit(commit) }
        if chance(2) { parts.append { try $0.recordCommitAcknowledged(commit.transaction) } }
      }
      return { journal in try journal.record { for part in parts { try part(journal) } } }
    }
  }

  @Test(
    "Records in the log are read and applied by the next process like records in the database",
    arguments: 1...6 as ClosedRange<UInt64>)
  func same(seed: UInt64) throws {
    let (waiting, direct) = (try Bench(.process), try Bench(.power))
    var records = RandomRecords(seed: seed)
    for round in 1...400 {
      let record = records.next()
      try record(waiting.journal)
      try record(direct.journal)
      guard round % 40 == 0 else { continue }
      #expect(!direct.journal.hasUnwrittenRecords)
      let copy = try waiting.killed()
      let expected = try Holdings(direct.journal.path)
      #expect(try Holdings(copy) == expected, "read beside its process, round \(round)")
      do {
        let next = try Journal(copy, identity: Bench.identity, durability: .process)
        #expect(!next.hasUnwrittenRecords)
        #expect(next.contents?.record.version == records.version)
        try compareOutboxes(of: next, records)
      }
      unlink(copy + ".step")
      #expect(try Holdings(copy) == expected, "in the database of the next process")
      if round == 200 { try waiting.journal.writePendingRecords() }
    }
  }

  /// Checks that a pipe continues with its unacknowledged events, from the first or from a later
  /// one.
  private func compareOutboxes(of journal: Journal, _ records: RandomRecords) throws {
    for (pipe, last) in records.queued {
      var sent = try #require(journal.contents?.outPipeProgressByPipe[pipe])
      for dropped in [0, 1, 6] {
        let left = RandomRecords.events(after: sent.lastAcknowledged, through: last).dropFirst(
          dropped)
        guard sent.events.count > dropped else { continue }
        sent.events.removeFirst(dropped)
        sent.lastAcknowledged += UInt64(dropped)
        #expect(sent.events.map { String(decoding: $0.json, as: UTF8.self) + "\n" } == Array(left))
        #expect(sent.events.count == left.count)
      }
    }
  }

  @Test("A truncated or damaged record is ignored, and earlier records are kept")
  func torn() throws {
    let bench = try Bench()
    func record(_ version: UInt64) throws {
      try bench.journal.record {
        try bench.journal.recordState(
          to: Array("\"on\"".utf8), version: version, steps: 1, cause: "in", time: 1,
          incarnation: 1)
      }
    }
    try record(1)
    try bench.journal.writePendingRecords()
    try record(2)
    let before = try #require(Self.bytes(bench.journal.path + ".step"))
    try record(3)
    let after = try #require(Self.bytes(bench.journal.path + ".step"))
    let changed = before.indices.filter { before[$0] != after[$0] }
    #expect(changed.count > 20)
    let copy = try bench.killed()
    // The number of the last record is written after the record, and reveals damage.
    let recordWord = 3 * 8..<4 * 8
    for place in changed where !recordWord.contains(place) {
      var bytes = after
      bytes[place] = ~bytes[place]
      bytes.replaceSubrange(recordWord, with: before[recordWord])
      try FileSystem.replace(copy + ".step", with: bytes)
      let versions = try JournalReader(copy, node: "door").snapshot(limit: 9).records.map(\.version)
      #expect(versions == [1, 2], "byte \(place)")
    }
    // Simulates the stores that a killed process did not make.
    for end in changed where !recordWord.contains(end) {
      var bytes = before
      bytes.replaceSubrange(..<end, with: after[..<end])
      bytes.replaceSubrange(recordWord, with: before[recordWord])
      try FileSystem.replace(copy + ".step", with: bytes)
      let next = try Journal(copy, identity: Bench.identity, durability: .process)
      #expect(next.contents?.record.version == 2, "up to byte \(end)")
      for suffix in ["", "-wal", "-shm"] {
        unlink(copy + suffix)
        if let original = Self.bytes(bench.journal.path + suffix) {
          try FileSystem.replace(copy + suffix, with: original)
        }
      }
    }
  }

  @Test("Records from an earlier use of the log, or of another journal, are ignored")
  func stale() throws {
    let (bench, other) = (try Bench(), try Bench())
    func record(_ journal: Journal, _ version: UInt64, byteCount: Int = 2) throws {
      try journal.record {
        try journal.recordState(
          to: Array(repeating: 0x31, count: byteCount), version: version, steps: 1, cause: "in",
          time: 1, incarnation: 1)
      }
    }
    for version in 1...9 as ClosedRange<UInt64> { try record(bench.journal, version) }
    try bench.journal.writePendingRecords()
    // The log still has records that the database has, too.
    let written = try JournalReader(try bench.killed(), node: "door").snapshot(limit: 99)
    #expect(written.records.map(\.version) == Array(1...9))
    try record(bench.journal, 10)
    let reader = try JournalReader(try bench.killed(), node: "door")
    #expect(try reader.snapshot(limit: 99).records.map(\.version) == Array(1...10))
    for version in 1...20 as ClosedRange<UInt64> { try record(other.journal, version) }
    let copy = try bench.killed()
    let log = try #require(Self.bytes(other.journal.path + ".step"))
    try FileSystem.replace(copy + ".step", with: log)
    #expect(
      try JournalReader(copy, node: "door").snapshot(limit: 99).records.map(\.version)
        == Array(1...9))
    // A record that does not fit into the log goes to the database, and so do the records before
    // it.
    try record(bench.journal, 11, byteCount: 1 << 20)
    #expect(!bench.journal.hasUnwrittenRecords)
    try record(bench.journal, 12)
    #expect(bench.journal.hasUnwrittenRecords)
    let last = try JournalReader(try bench.killed(), node: "door").snapshot(limit: 99)
    #expect(last.records.map(\.version) == Array(1...12))
  }

  @Test("Records that a power loss has removed do not reappear after new records")
  func anotherBoot() throws {
    let bench = try Bench()
    func record(_ journal: Journal, _ version: UInt64) throws {
      try journal.record {
        try journal.recordState(
          to: Array("\"on\"".utf8), version: version, steps: 1, cause: "in", time: 1,
          incarnation: 1)
      }
    }
    try record(bench.journal, 1)
    try bench.journal.writePendingRecords()
    for version in 2...200 as ClosedRange<UInt64> { try record(bench.journal, version) }
    // The system was restarted before it had written the first page of the log.
    for last in [2, 60, 120] as [UInt64] {
      let copy = try bench.killed()
      var bytes = try #require(Self.bytes(copy + ".step"))
      let logStart = bytes.count - Self.logByteCount
      for place in logStart..<(logStart + 4096) { bytes[place] = 0 }
      for place in Self.bootWord { bytes[place] = ~bytes[place] }
      try FileSystem.replace(copy + ".step", with: bytes)
      do {
        let next = try Journal(copy, identity: Bench.identity, durability: .process)
        #expect(next.contents?.record.version == 1)
        for version in 2...last { try record(next, version) }
        next.releaseLock()
      }
      let then = try Journal(copy, identity: Bench.identity, durability: .process)
      #expect(then.contents?.record.version == last)
    }
  }

  private static let logByteCount = 512 << 10
  /// The position of the system's boot id in the file.
  private static let bootWord = 2 * 8..<3 * 8
}
