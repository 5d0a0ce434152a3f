import CSQLite
import Glibc
import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("Large states in a journal")
struct RecordedStatesTests {
  /// A journal of a node with a large state.
  private final class Bench {
    let directory: TemporaryDirectory
    private(set) var journal: Journal
    private(set) var version: UInt64 = 0
    /// The states that were recorded, by version.
    private(set) var states: [UInt64: [UInt8]] = [:]

    init() throws {
      directory = try TemporaryDirectory()
      journal = try Self.open(directory)
    }

    private static func open(_ directory: TemporaryDirectory) throws -> Journal {
      try Journal(
        directory.path + "/door.sqlite",
        identity: .init(topology: "t", node: "door", machine: "m"), durability: .process)
    }

    var path: String { journal.path }

    func record(_ state: [UInt8]) throws {
      version += 1
      states[version] = state
      try journal.record {
        try journal.recordState(
          to: state, version: version, steps: 1, cause: "request", time: Int64(version),
          incarnation: 1)
      }
    }

    /// Opens the journal again, as the process after a kill does.
    func kill() throws {
      journal.releaseLock()
      journal = try Self.open(directory)
    }

    /// Runs SQL as the command `sqlite3` does.
    func run(_ sql: String) throws -> [[String]] {
      try journal.writePendingRecords()
      var handle: OpaquePointer?
      defer { sqlite3_close_v2(handle) }
      #expect(sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK)
      var statement: OpaquePointer?
      defer { sqlite3_finalize(statement) }
      #expect(sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK, "\(sql)")
      var rows: [[String]] = []
      while sqlite3_step(statement) == SQLITE_ROW {
        rows.append(
          (0..<sqlite3_column_count(statement)).map {
            sqlite3_column_text(statement, $0).map { String(cString: $0) } ?? ""
          })
      }
      return rows
    }

    /// Expects that a reader, and the view for `sqlite3`, have the recorded states.
    func expectStates(
      limit: Int = 2_000, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
      let records = try JournalReader(path, node: "door").snapshot(limit: limit).records
      #expect(records.last?.version == version, sourceLocation: sourceLocation)
      for record in records {
        let state = try JSONValue(parsing: #require(states[record.version]))
        #expect(record.state == state, "version \(record.version)", sourceLocation: sourceLocation)
      }
      for row in try run("SELECT version, state FROM record_state ORDER BY id DESC LIMIT \(limit)")
      {
        let version = try #require(UInt64(row[0]))
        #expect(
          Array(row[1].utf8) == states[version], "version \(version)",
          sourceLocation: sourceLocation)
      }
    }
  }

  private static func state(_ values: [Int], text: String = "é日😀") -> [UInt8] {
    Array(
      ("{\"holding\":{\"text\":\"\(text)\",\"values\":{"
        + values.enumerated().map { "\"key-\($0)\":\($1)" }.joined(separator: ",") + "}}}").utf8)
  }

  @Test("A large state is recorded as a difference, and a small state as a whole state")
  func differences() throws {
    let bench = try Bench()
    var values = [Int](repeating: 0, count: 1_000)
    for step in 1...20 {
      values[step * 31] = step
      try bench.record(Self.state(values))
    }
    #expect(try bench.run("SELECT count(*) FROM record WHERE base IS NULL") == [["1"]])
    #expect(try bench.run("SELECT max(length(state)) < 1200 FROM record WHERE base = 1") == [["1"]])
    for step in 1...3 { try bench.record(Self.state([step])) }
    #expect(try bench.run("SELECT count(*) FROM record WHERE base IS NULL") == [["4"]])
    try bench.record(Self.state(values))
    #expect(try bench.run("SELECT count(*) FROM record WHERE base IS NULL") == [["5"]])
    try bench.expectStates()
  }

  @Test(
    "The next process restores a state from a difference in the database or in the log",
    arguments: [true, false])
  func restart(isWritten: Bool) throws {
    let bench = try Bench()
    var values = [Int](repeating: 0, count: 5_000)
    for round in 1...5 {
      for step in 1...4 {
        values[round * 100 + step] = step
        try bench.record(Self.state(values))
        if isWritten { try bench.journal.writePendingRecords() }
      }
      try bench.expectStates()
      try bench.kill()
      #expect(bench.journal.contents?.record.state == Self.state(values))
      #expect(bench.journal.contents?.record.version == bench.version)
    }
  }

  @Test(
    "A journal keeps a whole state while differences refer to the state, and deletes old states")
  func retention() throws {
    let bench = try Bench()
    var values = [Int](repeating: 0, count: 1_000)
    var numbers = SplitMix64(seed: 1)
    for step in 1...3_000 {
      values[Int(numbers.next() % 1_000)] = step
      // Some states are small.
      try bench.record(step % 700 > 600 ? Self.state([step]) : Self.state(values))
      if step % 500 == 0 {
        let orphans = try bench.run(
          """
          SELECT count(*) FROM record AS difference WHERE base IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM record AS whole WHERE whole.id = difference.base AND whole.base IS NULL)
          """)
        #expect(orphans == [["0"]])
      }
      if step % 1_100 == 0 { try bench.kill() }
    }
    let count = try #require(try bench.run("SELECT count(*) FROM record").first?.first)
    #expect(try #require(Int(count)) >= 1_000)
    #expect(try #require(Int(count)) <= 1_600)
    try bench.expectStates()
  }

  @Test(
    "A journal of completely different states takes little space, and keeps at least eight states")
  func wholeStates() throws {
    let bench = try Bench()
    for step in 1...40 {
      let text = (0..<50_000).map { String(($0 &* 7_919 &* step) % 100_003) }.joined(separator: "-")
      try bench.record(Self.state([step], text: text))
      if step == 20 { try bench.kill() }
    }
    let rows = try bench.run("SELECT count(*), sum(length(state)) <= 6 << 20 FROM record")
    let count = try #require(Int(rows[0][0]))
    #expect(count >= 8 && count <= 25, "\(rows)")
    try bench.expectStates()
  }

  @Test("A whole state is recorded again after 255 differences")
  func groups() throws {
    let bench = try Bench()
    var values = [Int](repeating: 100, count: 20_000)
    for step in 1...600 {
      values[7] = 100 + step
      try bench.record(Self.state(values))
    }
    #expect(
      try bench.run("SELECT id FROM record WHERE base IS NULL") == [["1"], ["257"], ["513"]])
  }

  @Test(
    "A difference that does not fit its whole state causes an error with the reason",
    arguments: [
      "UPDATE record SET state = '[]' WHERE id = 3",
      "UPDATE record SET state = substr(state, 2) WHERE id = 3",
      "UPDATE record SET state = substr(state, 1, 3000) WHERE id = 1",
      "DELETE FROM record WHERE id = 1", "UPDATE record SET base = 2 WHERE id = 3",
    ])
  func damaged(change: String) throws {
    let bench = try Bench()
    var values = [Int](repeating: 0, count: 1_000)
    for step in 1...3 {
      values[100 * step] = step
      try bench.record(Self.state(values))
    }
    _ = try bench.run(change)
    let error = try #require(throws: JournalError.self) { try bench.kill() }
    guard case .damaged(_, "door", let reason) = error else {
      Issue.record("\(error)")
      return
    }
    #expect(
      reason.contains("the state of record 3 cannot be read: its difference does not fit"),
      "\(reason)"
    )
    #expect(
      throws: JournalError.damaged(path: bench.path, node: "door", reason: reason)
    ) { try JournalReader(bench.path, node: "door").snapshot(limit: 1) }
  }

  @Test(
    "A large state in a reply is recorded only once, in the record of its step")
  func answers() throws {
    let bench = try Bench()
    var values = [Int](repeating: 0, count: 1_000)
    for step in 1...3 {
      values[step] = step
      try bench.record(Self.state(values))
      try bench.journal.record {
        try bench.journal.recordAnswer(
          RequestKey(client: 1, id: UInt64(step)), version: bench.version, state: Self.state(values)
        )
      }
    }
    // Two steps of one burst: the state of the first one is in no record.
    let large = Self.state([Int](repeating: 1_000, count: 20_000))
    try bench.journal.record {
      try bench.journal.recordAnswer(
        RequestKey(client: 2, id: 1), version: bench.version - 1, state: large)
      try bench.journal.recordAnswer(
        RequestKey(client: 2, id: 2), version: 90, state: large)
      try bench.journal.recordAnswer(
        RequestKey(client: 2, id: 3), version: 91, state: Self.state(values))
    }
    #expect(
      try bench.run("SELECT length(state) > 0 FROM request ORDER BY client, id")
        == [["0"], ["0"], ["0"], ["0"], ["0"], ["1"]])
    try bench.kill()
    let answers = try #require(bench.journal.contents).requests.sorted {
      ($0.key.client, $0.key.id) < ($1.key.client, $1.key.id)
    }
    #expect(answers.prefix(3).map(\.state) == (1...3).map { bench.states[$0] })
    #expect(answers[3].state == bench.states[2])
    #expect(answers[4].state.isEmpty)
    #expect(answers[5].state == Self.state(values))
  }
}
