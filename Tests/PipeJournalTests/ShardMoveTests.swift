import CSQLite
import PipeJournal
import PipeMachines
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("Moves of instances to another number of shards")
struct ShardMoveTests {
  private let directory: TemporaryDirectory
  /// Four events for each of ten keys.
  private let events = (1...40).map { #"{"visit":{"key":"k\#($0 % 10)","n":\#($0)}}"# }

  init() throws { directory = try TemporaryDirectory() }

  private func process(_ name: String) -> ShardMove.Process {
    ShardMove.Process(
      name: name, journalPath: directory.path + "/\(name).sqlite", machine: "m",
      durability: .process)
  }

  private func open(_ name: String) throws -> Journal {
    try Journal(
      process(name).journalPath, identity: .init(topology: "t", node: name, machine: "m"),
      durability: .process)
  }

  private func end(_ journal: Journal) throws {
    try journal.finish()
    journal.releaseLock()
  }

  /// Records a sender with 40 events and a receiver that has acknowledged 5 and applied 12 of them. The
  /// receiver has 20 instances.
  private func prepare() throws {
    let sender = try open("sender")
    let receiver = try open("visitors")
    try receiver.store(instanceField: "key")
    try sender.record {
      try sender.recordState(
        to: Array("\"idle\"".utf8), version: 1, steps: 1, cause: "initial", time: 1,
        incarnation: 1)
      try sender.recordQueuedEvents(
        of: "p", last: 40, count: 40, events: Array(events.map { $0 + "\n" }.joined().utf8))
      try sender.recordSendProgress(of: "p", queued: 40, acknowledged: 5, trims: true)
    }
    try receiver.record {
      for number in 1...20 {
        try receiver.recordInstance(
          RecordedInstance(
            id: Int64(number), key: InstanceKey("i\(number)"), version: 2, time: 1, cause: "p",
            label: "visited", state: Array("\"visited\"".utf8), ended: nil))
      }
      try receiver.recordConsumption(of: "p", stream: sender.stream, applied: 12, closed: true)
      try receiver.recordState(
        to: Array(#"{"visited":20}"#.utf8), version: 40, steps: 40, cause: "p", time: 1,
        incarnation: 1)
    }
    try end(sender)
    try end(receiver)
  }

  private func move(from former: [String], to count: Int) -> ShardMove {
    func ends(_ names: [String]) -> [ShardMove.PipeEnd] {
      names.map { ShardMove.PipeEnd($0 == "visitors" ? "p" : "p." + $0.dropFirst(9), to: $0) }
    }
    let wanted = Self.names(count)
    return ShardMove(
      of: "visitors", key: "key", topology: "t", to: wanted.map(process),
      from: former.map(process),
      pipes: [.init(sender: process("sender"), former: ends(former), ends: ends(wanted))],
      receiversByPipe: [:])
  }

  private static func names(_ count: Int) -> [String] {
    count == 1 ? ["visitors"] : (0..<count).map { "visitors.\($0)" }
  }

  private static func shard(_ key: String, _ count: Int) throws -> Int {
    NodeShard.index(of: try InstanceKey(key), among: count)
  }

  /// Checks that each shard has its instances, and that its pipe has the events that no shard has
  /// applied, in order.
  private func check(_ count: Int) throws {
    let sender = try open("sender")
    let sent = try #require(try sender.readCurrentContents()?.outPipeProgressByPipe)
    let pipes = count == 1 ? ["p"] : (0..<count).map { "p.\($0)" }
    #expect(Set(sent.keys) == Set(pipes))
    for (index, name) in Self.names(count).enumerated() {
      let found = try InstanceReader(process(name).journalPath, node: name)
        .instances(InstanceSelection(limit: 100))
      let keys = try (1...20).map { "i\($0)" }.filter { try Self.shard($0, count) == index }
      #expect(Set(found.map(\.key.text)) == Set(keys))
      #expect(found.allSatisfy { $0.version == 2 && $0.cause == "p" })
      let pipe = try #require(sent[pipes[index]])
      let texts = pipe.events.map { String(decoding: $0.json, as: UTF8.self) }
      for key in try (0..<10).map({ "k\($0)" }).filter({ try Self.shard($0, count) == index }) {
        let isOfKey = { (text: String) in text.contains("\"\(key)\"") }
        #expect(texts.filter(isOfKey) == events.dropFirst(12).filter(isOfKey))
      }
      #expect(pipe.lastQueuedNumber == pipe.lastAcknowledged + UInt64(texts.count))
      let receiver = try open(name)
      let contents = try #require(try receiver.readCurrentContents())
      #expect(contents.inPipeProgressByPipe[pipes[index]]?.lastApplied == pipe.lastAcknowledged)
      #expect(contents.inPipeProgressByPipe[pipes[index]]?.stream == sender.stream)
      let counted = keys.isEmpty ? "{}" : #"{"visited":\#(keys.count)}"#
      #expect(String(decoding: contents.record.state, as: UTF8.self) == counted)
      try end(receiver)
    }
    try end(sender)
    #expect(try move(from: Self.names(count), to: count).isNeeded() == false)
  }

  @Test("Instances, and events that are not applied yet, move to the shard that owns their key")
  func moves() throws {
    try prepare()
    var former = 1
    for count in [3, 4, 2, 1] {
      let move = move(from: Self.names(former), to: count)
      #expect(try move.isNeeded())
      #expect(try move.run().eventCount == 28)
      try check(count)
      former = count
    }
  }

  @Test("After a move, every shard recognizes a repetition of a recorded request")
  func repeatedRequests() throws {
    try prepare()
    let number: UInt64 = 77
    let receiver = try open("visitors")
    try receiver.record {
      try receiver.recordAnswer(RequestKey(client: 5, id: number), version: 40, state: [])
    }
    try end(receiver)
    var former = 1
    for count in [3, 2, 3, 1] {
      _ = try move(from: Self.names(former), to: count).run()
      for name in Self.names(count) {
        let journal = try open(name)
        let contents = try #require(try journal.readCurrentContents())
        #expect(contents.requests.isEmpty)
        #expect(contents.highestForgottenRequestNumber == number)
        try end(journal)
      }
      former = count
    }
  }

  @Test("A move to another number of shards is refused while a move is not complete")
  func unfinished() throws {
    try prepare()
    _ = try move(from: ["visitors"], to: 2).run()
    let journal = try open("visitors.0")
    try journal.record {
      try journal.recordConsumption(of: "x", stream: 1, applied: 0, closed: false)
    }
    try end(journal)
    let shards = Self.names(2)
    try Self.mark(process("visitors.0").journalPath)
    let marked = try open("visitors.0")
    #expect(throws: JournalError.self) {
      try marked.store(shard: NodeShard(named: "visitors.0", count: 2))
    }
    try end(marked)
    #expect(try move(from: shards, to: 2).isNeeded())
    #expect(throws: ShardMoveError.unfinished(node: "visitors", count: 2)) {
      _ = try move(from: shards, to: 3).run()
    }
    _ = try move(from: shards, to: 2).run()
    try check(2)
  }

  /// Marks a journal as if a move to two shards were interrupted.
  private static func mark(_ path: String) throws {
    var handle: OpaquePointer?
    defer { sqlite3_close_v2(handle) }
    try #require(sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE, nil) == SQLITE_OK)
    let sql = "INSERT INTO meta VALUES ('moved 1', '2')"
    try #require(sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK)
  }
}
