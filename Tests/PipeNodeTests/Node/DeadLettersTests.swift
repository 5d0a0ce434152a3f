import PipeJournal
import PipeMachines
import PipeNode
import PipeWire
import TestSupport
import Testing

@Suite("The dead letters of a node")
struct DeadLettersTests {
  private static func deadLetter(_ byteCount: Int = 0) -> DeadLetter {
    DeadLetter(
      id: 0, pipe: "visitors", sequence: 1,
      event: .string(String(repeating: "x", count: byteCount)), reason: "refused", version: 0,
      time: 0)
  }

  /// Opens a journal of a node that has entered a state. Only such a journal is read again.
  private static func open(_ directory: TemporaryDirectory) throws -> Journal {
    try Journal(
      directory.path + "/gate.sqlite",
      identity: .init(topology: "ward", node: "gate", machine: "Gate"), durability: .process)
  }

  private static func record(_ deadLetters: inout DeadLetters, in journal: Journal) throws {
    try journal.record {
      try journal.recordState(
        to: Array("1".utf8), version: 1, steps: 1, cause: "initial", time: 0, incarnation: 1)
      try deadLetters.record(into: journal)
    }
    deadLetters.recorded()
    #expect(!deadLetters.hasUnrecordedChanges)
  }

  @Test("A lower limit of dead letters removes none of them")
  func lowerLimit() throws {
    let directory = try TemporaryDirectory()
    defer { withExtendedLifetime(directory) {} }
    func open(keeping count: Int) throws -> Journal {
      try Journal(
        directory.path + "/gate.sqlite",
        identity: .init(topology: "ward", node: "gate", machine: "Gate"), durability: .process,
        keeping: JournalRetention(deadLetters: count))
    }
    do {
      let journal = try open(keeping: 3)
      var deadLetters = DeadLetters(journal: journal)
      let results = (1...4).map { _ in deadLetters.add(Self.deadLetter(10)) }
      #expect(results == [true, true, true, false])
      try Self.record(&deadLetters, in: journal)
    }
    let journal = try open(keeping: 2)
    var deadLetters = DeadLetters(journal: journal)
    func add() -> Bool { deadLetters.add(Self.deadLetter(10)) }
    func remove(_ id: UInt64) -> Bool { deadLetters.remove(id) }
    #expect(deadLetters.currentCount == 3 && deadLetters.lostCount == 1)
    #expect(remove(1))
    #expect(!add())
    #expect(deadLetters.reachedLimit == 2)
    #expect(remove(2))
    #expect(add())
    #expect(deadLetters[3] != nil && deadLetters[4] != nil && deadLetters.lostCount == 2)
  }

  @Test("A node with a journal keeps its oldest dead letters, up to a size limit, across a crash")
  func bytes() throws {
    let directory = try TemporaryDirectory()
    defer { withExtendedLifetime(directory) {} }
    let fitting = 20
    let size = JournalRetention().deadLetterByteLimit / fitting - 1_000
    do {
      let journal = try Self.open(directory)
      var deadLetters = DeadLetters(journal: journal)
      func add(_ byteCount: Int) -> Bool { deadLetters.add(Self.deadLetter(byteCount)) }
      for _ in 0..<fitting { #expect(add(size)) }
      try Self.record(&deadLetters, in: journal)
      #expect(!add(size))
      #expect(deadLetters.hasUnrecordedChanges)
      try Self.record(&deadLetters, in: journal)
      #expect(
        deadLetters.currentCount == fitting && deadLetters.lostCount == 1
          && deadLetters.lastID == 20)
      #expect(add(1_000))
      #expect(!add(size))
      try Self.record(&deadLetters, in: journal)
    }
    let journal = try Self.open(directory)
    var deadLetters = DeadLetters(journal: journal)
    func add(_ byteCount: Int) -> Bool { deadLetters.add(Self.deadLetter(byteCount)) }
    func remove(_ id: UInt64) -> Bool { deadLetters.remove(id) }
    journal.forgetContents()
    #expect(
      deadLetters.currentCount == fitting + 1 && deadLetters.lostCount == 2
        && deadLetters.lastID == 21)
    #expect(!add(size))
    // There are so few dead letters that all of them are among the recent ones.
    #expect(remove(1) && !remove(1))
    #expect(add(size))
    #expect(!add(size))
    #expect(deadLetters.currentCount == fitting + 1 && deadLetters.lostCount == 4)
    try Self.record(&deadLetters, in: journal)
    #expect(deadLetters[1] == nil && deadLetters[2]?.id == 2 && deadLetters[22]?.id == 22)
    var status = NodeStatus()
    deadLetters.fill(&status)
    #expect(status.deadLetters == 21 && status.deadLettersLost == 4)
    #expect(status.recentDeadLetters.map(\.id) == [18, 19, 20, 21, 22])
  }

  @Test("A node without a journal keeps the latest dead letters")
  func volatile() {
    var deadLetters = DeadLetters(journal: nil)
    func add(_ byteCount: Int) -> Bool { deadLetters.add(Self.deadLetter(byteCount)) }
    for _ in 0..<(DeadLetter.maximumInMemoryCount + 5) { #expect(add(0)) }
    #expect(
      deadLetters.currentCount == DeadLetter.maximumInMemoryCount && deadLetters.lostCount == 0)
    #expect(deadLetters[5] == nil && deadLetters[6]?.id == 6)
    var status = NodeStatus()
    deadLetters.fill(&status)
    #expect(status.deadLettersLost == nil)
  }
}
