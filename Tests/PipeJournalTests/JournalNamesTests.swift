import Glibc
import PipeJournal
import PipeMachines
import PipeSystem
import PipeWire
import TestSupport
import Testing

@Suite("Changes of names in journals")
struct JournalNamesTests {
  private let directory: TemporaryDirectory
  private let coordinator = RecordedCoordinator(
    name: "pair", journal: 77, lastTransaction: TransactionID(epoch: 1, sequence: 2))

  init() throws { directory = try TemporaryDirectory() }

  private func path(_ name: String) -> String { directory.path + "/\(name).sqlite" }

  private func open(_ name: String, durability: Durability = .process) throws -> Journal {
    try Journal(
      path(name), identity: .init(topology: "t", node: name, machine: "m"), durability: durability)
  }

  private var changes: NameChanges {
    var changes = NameChanges()
    changes.members = ["old": "new", "far": "near", "pair": "couple"]
    changes.pipes = [
      "in": .init("inbound", from: "sender", to: "new"),
      "out": .init("outbound", from: "new", to: "near"),
    ]
    return changes
  }

  /// Records something under each name that can change.
  /// - Parameter preparedState: The state after the step that the node is prepared for.
  private func record(in journal: Journal, preparedState: String = "1") throws {
    try journal.record {
      try journal.recordState(
        to: Array("0".utf8), version: 9, steps: 9, cause: "in", time: 1, incarnation: 1)
      try journal.recordConsumption(of: "in", stream: 5, applied: 12, closed: false)
      try journal.recordPostponedEvent(1, "in", 11, event: Array("\"late\"".utf8))
      try journal.recordQueuedEvents(
        of: "out", last: 7, count: 2, events: Array("\"a\"\n\"b\"\n".utf8))
      try journal.recordSendProgress(of: "out", queued: 7, acknowledged: 5, trims: true)
      try journal.recordReceiver(of: "out", .init("far", lastNumberBeforeRedirection: 3))
      try journal.recordDeadLetter(
        DeadLetter(
          id: 1, pipe: "in", sequence: 4, event: "bad", reason: "no", state: nil, version: 1,
          time: 1
        ))
      try journal.recordComponent("far", Array("{}".utf8))
      try journal.recordCoordinator(coordinator)
      try journal.recordCommit(
        CommitRecord(
          transaction: TransactionID(epoch: 1, sequence: 1),
          request: RequestID(pipe: "in", stream: 5, sequence: 3),
          moves: [
            "old": ParticipantMove(version: 1, state: Array("1".utf8)),
            "other": ParticipantMove(version: 2, state: Array("2".utf8)),
            "far[k1]": ParticipantMove(version: 3, state: Array("3".utf8)),
          ]))
    }
    let step = PreparedStep(
      transaction: TransactionID(epoch: 2, sequence: 1),
      event: TransactionBody(composite: "pair", event: Array("\"meet\"".utf8)).bytes,
      move: ParticipantMove(version: 10, state: Array(preparedState.utf8)))
    if !journal.markPrepared(step) { try journal.record { try journal.recordPrepared(step) } }
  }

  private func change(_ name: String, existing: Set<String> = []) throws {
    try JournalNames.change(
      changes, inJournal: path(name), of: name, durability: .process, existing: existing)
  }

  /// Checks that the journal has everything that ``record(in:preparedState:)`` has recorded, under
  /// the new names.
  private func check(_ journal: Journal) throws {
    let contents = try #require(try journal.readCurrentContents())
    #expect(contents.record.version == 9)
    #expect(Set(contents.inPipeProgressByPipe.keys) == ["inbound"])
    #expect(contents.inPipeProgressByPipe["inbound"]?.stream == 5)
    #expect(contents.inPipeProgressByPipe["inbound"]?.lastApplied == 12)
    #expect(contents.inPipeProgressByPipe["inbound"]?.postponedEvents.map(\.sequence) == [11])
    #expect(Set(contents.outPipeProgressByPipe.keys) == ["outbound"])
    #expect(contents.outPipeProgressByPipe["outbound"]?.lastQueuedNumber == 7)
    #expect(
      contents.outPipeProgressByPipe["outbound"]?.events.map {
        String(decoding: $0.json, as: UTF8.self)
      }
        == ["\"a\"", "\"b\""])
    #expect(
      try journal.recordedReceivers() == ["outbound": .init("near", lastNumberBeforeRedirection: 3)]
    )
    #expect(contents.deadLetters.map(\.pipe) == ["inbound"])
    #expect(try journal.components().keys.sorted() == ["near"])
    let recorded = journal.contents?.participant
    #expect(recorded?.coordinator?.name == "couple")
    #expect(recorded?.coordinator?.journal == 77)
    let prepared = try #require(recorded?.preparedStep)
    #expect(prepared.transaction == TransactionID(epoch: 2, sequence: 1))
    #expect(TransactionBody(prepared.event)?.composite == "couple")
    let commit = try #require(try journal.coordinator().commits.first)
    #expect(commit.request == RequestID(pipe: "inbound", stream: 5, sequence: 3))
    #expect(commit.moves.keys.sorted() == ["near[k1]", "new", "other"])
  }

  @Test(
    "After a change of names, a journal has everything under the new names",
    arguments: [true, false], ["1", String(repeating: "1", count: 3_980)])
  func changed(isGraceful: Bool, preparedState: String) throws {
    let journal = try open("old")
    let stream = journal.stream
    try record(in: journal, preparedState: preparedState)
    // Without a graceful end, the last records and the prepared step are only in the step file.
    if isGraceful { try journal.finish() }
    journal.releaseLock()
    let found = try JournalNames(inJournal: path("old"), of: "old").occurring(in: changes)
    #expect(found == changes)
    try change("old")
    try JournalFiles(path("old"), node: "old").move(to: path("new"))
    #expect(!FileSystem.exists(path("old")) && !FileSystem.exists(path("old") + ".step"))
    let left = try JournalNames(inJournal: path("new"), of: "new").occurring(in: changes)
    #expect(left.isEmpty)
    let renamed = try open("new")
    #expect(renamed.stream == stream)
    try check(renamed)
    renamed.releaseLock()
    // A repetition changes nothing.
    try change("new")
    let again = try open("new")
    try check(again)
    again.releaseLock()
  }

  @Test("Names change in the journal of a process that was killed before it noted its last record")
  func lastRecordNotNoted() throws {
    let journal = try open("old")
    try record(in: journal)
    journal.releaseLock()
    // The number of the last record is the fourth word of the step file.
    let descriptor = Glibc.open(path("old") + ".step", O_RDWR)
    defer { close(descriptor) }
    var number: UInt64 = 0
    #expect(pread(descriptor, &number, 8, 24) == 8)
    number -= 1
    #expect(pwrite(descriptor, &number, 8, 24) == 8)
    try change("old")
    try JournalFiles(path("old"), node: "old").move(to: path("new"))
    let renamed = try open("new")
    try check(renamed)
    renamed.releaseLock()
  }

  @Test("A step that was in progress keeps counting its crashes under the new name of its pipe")
  func interruptedStep() throws {
    let journal = try open("old")
    try record(in: journal)
    journal.marker.sourceMarker("in").begin(13)
    journal.releaseLock()
    try change("old")
    try JournalFiles(path("old"), node: "old").move(to: path("new"))
    let renamed = try Journal(
      opening: path("new"), identity: .init(topology: "t", node: "new", machine: "m"),
      durability: .process)
    #expect(renamed.marker.interruptedStep?.source == "inbound")
    #expect(renamed.marker.interruptedStep?.sequence == 13)
    renamed.releaseLock()
  }

  @Test(
    "If a journal has a pipe under both names, the progress that fits the pipe's other end remains",
    arguments: [([], 12), (["sender"], 4)] as [(Set<String>, UInt64)])
  func bothNames(existing: Set<String>, applied: UInt64) throws {
    let journal = try open("old")
    try journal.record {
      try journal.recordState(
        to: Array("0".utf8), version: 1, steps: 1, cause: "in", time: 1, incarnation: 1)
      try journal.recordConsumption(of: "in", stream: 5, applied: 12, closed: false)
      try journal.recordConsumption(of: "inbound", stream: 6, applied: 4, closed: false)
    }
    try journal.finish()
    journal.releaseLock()
    try change("old", existing: existing)
    try JournalFiles(path("old"), node: "old").move(to: path("new"))
    let renamed = try open("new")
    #expect(renamed.contents?.inPipeProgressByPipe.mapValues(\.lastApplied) == ["inbound": applied])
    renamed.releaseLock()
  }

  @Test("Names do not change if undelivered events of a pipe would be dropped")
  func undeliveredEvents() throws {
    let journal = try open("old")
    try journal.record {
      try journal.recordState(
        to: Array("0".utf8), version: 1, steps: 1, cause: "in", time: 1, incarnation: 1)
      for name in ["out", "outbound"] {
        try journal.recordQueuedEvents(of: name, last: 1, count: 1, events: Array("\"a\"\n".utf8))
        try journal.recordSendProgress(of: name, queued: 1, acknowledged: 0, trims: false)
      }
    }
    journal.releaseLock()
    #expect(
      throws: JournalNameError.bothNames(node: "old", pipe: "outbound", former: "out")
    ) { try change("old") }
    let unchanged = try open("old")
    #expect(unchanged.contents?.outPipeProgressByPipe.keys.sorted() == ["out", "outbound"])
    unchanged.releaseLock()
  }
}
