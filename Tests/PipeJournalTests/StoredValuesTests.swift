import CSQLite
import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("The schema versions of the states and events in a journal")
struct StoredValuesTests {
  private static let identity = Journal.Identity(topology: "t", node: "door", machine: "m")

  private static func path(in directory: TemporaryDirectory) -> String {
    directory.path + "/door.sqlite"
  }

  /// Records one value of each kind.
  private static func fill(_ journal: Journal, schema: Int) throws {
    journal.schema = schema
    let now = BootClock.now
    try journal.record {
      try journal.recordState(
        to: Array("1".utf8), version: 3, steps: 1, cause: "in", time: 1, incarnation: 1)
      try journal.recordEffectStart(
        EffectOrigin(version: 2, feedback: 1), state: Array("2".utf8), progress: now)
      try journal.recordTimersStart(
        EffectOrigin(version: 3, feedback: EffectOrigin.timers), delay: .seconds(1), since: now)
      try journal.recordConsumption(of: "in", stream: 7, applied: 5, closed: false)
      try journal.recordPostponedEvent(1, "in", 5, event: Array("3".utf8))
      try journal.recordDeadLetter(
        DeadLetter(
          id: 1, pipe: "in", sequence: 4, event: 4, reason: "refused", version: 2, time: 1,
          schema: schema))
      try journal.recordDeadLetter(
        DeadLetter(
          id: 2, pipe: "in", sequence: 4, event: "?", reason: "undecodable", version: 2, time: 1,
          schema: unknownSchema))
      try journal.recordQueuedEvents(
        of: "out", last: 2, count: 2, events: Array("5\n6\n".utf8), schema: schema)
      try journal.recordSendProgress(of: "out", queued: 2, acknowledged: 0, trims: false)
    }
    let step = PreparedStep(
      transaction: TransactionID(epoch: 1, sequence: 9), event: Array("pair\n7".utf8),
      move: ParticipantMove(version: 4, state: Array("8".utf8)))
    if !journal.markPrepared(step) { try journal.record { try journal.recordPrepared(step) } }
  }

  private static func values(_ path: String) throws -> [String] {
    let reader = try JournalReader(path, node: "door")
    var values: [String] = []
    func add(_ value: StoredValue) {
      let bytes =
        switch value.content {
        case .state(let bytes), .timerState(let bytes), .event(let bytes): bytes
        }
      let text = String(decoding: bytes, as: UTF8.self)
      values.append("\(value.kind.rawValue) \(value.number) \(text) \(value.schema)")
    }
    try reader.forEachStoredValue(add)
    try reader.forEachQueuedEvent(of: "out", after: 1, add)
    return values
  }

  private static func expected(_ schema: Int) -> [String] {
    [
      "state 3 1", "effect 2 2", "timer 3 1", "preparedStep 9 8", "preparedStep 9 7",
      "postponedEvent 5 3", "deadLetter 1 4", "queuedEvent 2 6",
    ].map { "\($0) \(schema)" }
  }

  @Test(
    "Each state and event keeps its schema version, in the log and in the database",
    arguments: [Durability.process, .power], [1, 2])
  func kept(durability: Durability, schema: Int) throws {
    let directory = try TemporaryDirectory()
    let path = Self.path(in: directory)
    do {
      let journal = try Journal(path, identity: Self.identity, durability: durability)
      try Self.fill(journal, schema: schema)
      #expect(try Self.values(path) == Self.expected(schema))
      try journal.writePendingRecords()
    }
    #expect(try Self.values(path) == Self.expected(schema))
    // A process of a later program keeps the versions of what it has not recorded again.
    let next = try Journal(path, identity: Self.identity, durability: durability)
    next.schema = 3
    #expect(next.contents?.record.schema == schema)
    #expect(next.contents?.effects.map(\.schema).first == schema)
    #expect(next.contents?.participant.preparedStep?.schema == schema)
    #expect(next.contents?.outPipeProgressByPipe["out"]?.events.map(\.schema) == [schema, schema])
    try next.finish()
    next.releaseLock()
    #expect(try Self.values(path) == Self.expected(schema))
  }

  @Test("A journal with tables of version 3 is upgraded, and its values have schema version 1")
  func former() throws {
    let directory = try TemporaryDirectory()
    let path = Self.path(in: directory)
    do {
      let journal = try Journal(path, identity: Self.identity, durability: .power)
      try Self.fill(journal, schema: 1)
      try journal.finish()
    }
    for table in [
      "record", "instance", "instance_effect", "outbox", "effect", "postponed", "dead_letter",
      "prepared",
    ] { try Self.run("ALTER TABLE \(table) DROP COLUMN schema", path) }
    try Self.run("DELETE FROM dead_letter WHERE id = 2; PRAGMA user_version = 3", path)
    #expect(try Self.values(path) == Self.expected(1))
    let journal = try Journal(path, identity: Self.identity, durability: .power)
    #expect(journal.contents?.record.schema == 1)
    journal.schema = 2
    try journal.record {
      try journal.recordState(
        to: Array("1".utf8), version: 3, steps: 0, cause: "in", time: 1, incarnation: 1)
    }
    try journal.finish()
    #expect(try Self.values(path).first == "state 3 1 2")
  }

  private struct Failure: Error { var message: String }

  private static func run(_ sql: String, _ path: String) throws {
    var handle: OpaquePointer?
    defer { sqlite3_close_v2(handle) }
    guard sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK,
      sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK
    else { throw Failure(message: String(cString: sqlite3_errmsg(handle))) }
  }
}
