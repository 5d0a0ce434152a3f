import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("The instances that a journal records")
struct InstanceRecordTests {
  private static func journal(in directory: TemporaryDirectory) throws -> Journal {
    try Journal(
      directory.path + "/orders.sqlite",
      identity: .init(topology: "t", node: "orders", machine: "m"), durability: .process)
  }

  private static func instance(
    _ key: String, _ label: String = "placed", version: UInt64 = 1, time: Int64 = 0,
    ended: Int64? = nil
  ) -> RecordedInstance {
    RecordedInstance(
      id: Int64(FNV.hash(of: key)), key: InstanceKey(recorded: key), version: version, time: time,
      cause: "test", label: label,
      state: Array("\"\(label)\"".utf8), ended: ended)
  }

  private static func add(_ instances: [RecordedInstance], to journal: Journal) throws {
    try journal.record { for instance in instances { try journal.recordInstance(instance) } }
  }

  private static func read(
    _ journal: Journal, _ selection: InstanceSelection
  ) throws -> [RecordedInstance] {
    try InstanceReader(journal.path, node: "orders").instances(selection)
  }

  @Test("A reader sees instances in the database and in the log, in the order of their keys' bytes")
  func merged() throws {
    let directory = try TemporaryDirectory()
    let journal = try Self.journal(in: directory)
    let keys = ["b", "a", "\u{E9}", "e\u{301}", "B", "aa"]
    try Self.add(keys.map { Self.instance($0) }, to: journal)
    try journal.writePendingRecords()
    try Self.add([Self.instance("a", "paid", version: 2), Self.instance("c")], to: journal)
    try journal.record {
      try journal.removeInstance(Self.instance("b").id, InstanceKey(recorded: "b"))
    }
    #expect(journal.hasUnwrittenRecords)
    let all = try Self.read(journal, InstanceSelection(limit: 100))
    #expect(all.map(\.key.text.utf8.count) == [1, 1, 2, 1, 3, 2])
    #expect(all.map(\.key.text) == ["B", "a", "aa", "c", "e\u{301}", "\u{E9}"])
    #expect(all[1] == Self.instance("a", "paid", version: 2))
    // A running node reads only the database, which does not have the records of the log yet.
    #expect(try journal.instance(InstanceKey(recorded: "a"))?.version == 1)
    try journal.writePendingRecords()
    #expect(try Self.read(journal, InstanceSelection(limit: 100)) == all)
    #expect(try journal.instance(InstanceKey(recorded: "a"))?.version == 2)
    #expect(try journal.instance(InstanceKey(recorded: "b")) == nil)
  }

  @Test(
    "A selection by state, age, key and position covers the database and the log",
    arguments: [false, true])
  func selected(isWritten: Bool) throws {
    let directory = try TemporaryDirectory()
    let journal = try Self.journal(in: directory)
    let instances = (0..<20).map {
      Self.instance("\($0 + 10)", $0.isMultiple(of: 2) ? "placed" : "paid", time: Int64($0))
    }
    try Self.add(instances, to: journal)
    if isWritten { try journal.writePendingRecords() }
    func keys(_ selection: InstanceSelection) throws -> [String] {
      try Self.read(journal, selection).map(\.key.text)
    }
    #expect(try keys(InstanceSelection(label: "paid", limit: 2)) == ["11", "13"])
    #expect(try keys(InstanceSelection(before: 3, limit: 9)) == ["10", "11", "12"])
    #expect(try keys(InstanceSelection(after: "27", limit: 9)) == ["28", "29"])
    #expect(try keys(InstanceSelection(keys: ["12", "99", "11"], limit: 9)) == ["11", "12"])
  }

  @Test("A limited selection is complete although the log has changed instances in the database")
  func limited() throws {
    let directory = try TemporaryDirectory()
    let journal = try Self.journal(in: directory)
    try Self.add((10..<20).map { Self.instance("\($0)") }, to: journal)
    try journal.writePendingRecords()
    // According to the log, the first instances of the database are no longer in the wanted state.
    try Self.add((10..<15).map { Self.instance("\($0)", "paid", version: 2) }, to: journal)
    let found = try Self.read(journal, InstanceSelection(label: "placed", limit: 3))
    #expect(found.map(\.key.text) == ["15", "16", "17"])
  }

  @Test("Only the last of several changes of an instance is written into the database")
  func compacted() throws {
    let directory = try TemporaryDirectory()
    let journal = try Self.journal(in: directory)
    for version in 1...50 {
      try Self.add([Self.instance("a", version: UInt64(version))], to: journal)
    }
    try journal.record { try journal.removeInstance(99, InstanceKey(recorded: "x")) }
    try journal.writePendingRecords()
    #expect(try journal.instance(InstanceKey(recorded: "a"))?.version == 50)
  }

  @Test("Ended instances are found by the time of their end")
  func ended() throws {
    let directory = try TemporaryDirectory()
    let journal = try Self.journal(in: directory)
    try Self.add(
      [
        Self.instance("late", ended: 30), Self.instance("early", ended: 10),
        Self.instance("open"), Self.instance("middle", ended: 20),
      ], to: journal)
    try journal.writePendingRecords()
    let found = try journal.instances(endedBefore: 30, limit: 10)
    #expect(found.map(\.key.text) == ["early", "middle"])
    #expect(try journal.instances(endedBefore: 30, limit: 1).map(\.key.text) == ["early"])
  }

  @Test("The effects of instances are kept by instance, version and feedback")
  func effects() throws {
    let directory = try TemporaryDirectory()
    let journal = try Self.journal(in: directory)
    let (a, b) = (Self.instance("a"), Self.instance("b"))
    try Self.add([a, b], to: journal)
    func origin(_ instance: RecordedInstance, feedback: Int = 0) -> EffectOrigin {
      EffectOrigin(version: 3, feedback: feedback, instance: instance.id)
    }
    let origins = [origin(a), origin(b), origin(a, feedback: 1)]
    try journal.record {
      for origin in origins {
        try journal.recordInstanceEffectStart(
          origin, state: Array("1".utf8), progress: BootClock.now)
      }
    }
    try journal.record { try journal.recordInstanceEffectEnd(origin(a)) }
    let effects = try journal.instanceEffects().map { [$0.key.text: $0.effect.origin] }
    #expect(Set(effects) == [["a": origin(a, feedback: 1)], ["b": origin(b)]])
    #expect(try journal.hasInstanceEffect(origin(b)))
    #expect(try !journal.hasInstanceEffect(origin(a)))
  }

  @Test(
    "The dead letter of an effect names the effect and its instance",
    arguments: [
      EffectOrigin(version: 7), EffectOrigin(version: 7, feedback: 2),
      EffectOrigin(version: 7, instance: 12), EffectOrigin(version: 7, feedback: 2, instance: 12),
    ])
  func deadLetterSource(origin: EffectOrigin) {
    let source = origin.deadLetterSource(named: "rest")
    #expect(EffectOrigin(ofDeadLetterFrom: source, 7) == origin, "\(source)")
    #expect(EffectOrigin(ofDeadLetterFrom: "a->b", 7) == nil)
  }
}
