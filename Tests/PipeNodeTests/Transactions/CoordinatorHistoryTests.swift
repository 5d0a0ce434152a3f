import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("Participants' histories and their coordinator's journal")
struct CoordinatorHistoryTests {
  private typealias Action = CoordinatorStateMachine.Action
  private typealias History = ParticipantJoin.History

  /// Returns the second incarnation of a coordinator of `a` and `b`, whose journal, 7, has a commit
  /// of the first one.
  private static func coordinator(
    _ change: (inout CoordinatorJournal) -> Void = { _ in }
  ) -> CoordinatorStateMachine {
    var journal = CoordinatorJournal()
    journal.id = 7
    journal.epoch = 1
    journal.commits = [
      CommitRecord(
        transaction: at(1), request: RequestID(caller: "me", number: 1),
        moves: ["a": move, "b": move])
    ]
    journal.acknowledged = [at(1)]
    change(&journal)
    var coordinator = CoordinatorStateMachine(name: "lift", journal: journal)
    _ = coordinator.start()
    _ = coordinator.recorded(.start(epoch: coordinator.epoch))
    coordinator.expect(["a", "b"])
    return coordinator
  }

  private static let move = ParticipantMove(version: 1, state: Array("\"on\"".utf8))

  private static func at(_ sequence: UInt64, epoch: UInt64 = 1) -> TransactionID {
    TransactionID(epoch: epoch, sequence: sequence)
  }

  private static func join(
    _ committed: TransactionID, prepared: TransactionID? = nil, journal: UInt64 = 7
  ) -> ParticipantJoin {
    ParticipantJoin(
      watermark: max(committed, prepared ?? .zero), prepared: prepared.map { [$0] } ?? [],
      history: History(journal: journal, committed: committed))
  }

  private static func refusals(_ actions: [Action]) -> [JournalMismatch] {
    actions.compactMap { if case .refuse(let mismatch) = $0 { mismatch } else { nil } }
  }

  @Test(
    "A coordinator refuses to continue if its journal lacks an event that a participant has taken")
  func lacksCommit() {
    var coordinator = Self.coordinator()
    #expect(Self.refusals(coordinator.joined("a", Self.join(Self.at(1)))).isEmpty)
    let actions = coordinator.joined("b", Self.join(Self.at(2)))
    #expect(actions == [.refuse(.lacksCommit(Self.at(2), of: "b"))])
    // Afterwards it ignores all messages.
    #expect(coordinator.received(.query(Self.at(3)), from: "b").isEmpty)
    #expect(coordinator.joined("a", Self.join(.zero, prepared: Self.at(3))).isEmpty)
    #expect(coordinator.stop().isEmpty)
  }

  @Test("A coordinator refuses to continue if a participant reports another coordinator journal")
  func otherJournal() {
    for join in [Self.join(.zero, prepared: Self.at(1), journal: 8), Self.join(.zero, journal: 8)] {
      var coordinator = Self.coordinator()
      #expect(coordinator.joined("a", join) == [.refuse(.otherJournal("a"))])
    }
  }

  @Test(
    "A coordinator refuses to continue if a participant is prepared in an unrecorded epoch"
  )
  func lacksStart() {
    var coordinator = Self.coordinator()
    let prepared = Self.at(1, epoch: 3)
    #expect(
      coordinator.joined("a", Self.join(Self.at(1), prepared: prepared))
        == [.refuse(.lacksStart(prepared, of: "a"))])
  }

  @Test(
    "A coordinator continues after a reset or power loss, without a journal, or with older nodes"
  )
  func legitimate() {
    let old = Self.join(Self.at(5, epoch: 9), prepared: Self.at(6, epoch: 9), journal: 8)
    var reset = Self.coordinator { $0.followsReset = true }
    #expect(Self.refusals(reset.joined("a", old)).isEmpty)
    var weak = Self.coordinator { $0.mayLackRecords = true }
    #expect(Self.refusals(weak.joined("a", Self.join(Self.at(9)))).isEmpty)
    var unrecorded = Self.coordinator { $0.id = nil }
    #expect(Self.refusals(unrecorded.joined("a", old)).isEmpty)
    var mixed = Self.coordinator()
    let older = ParticipantJoin(watermark: Self.at(5, epoch: 9), prepared: [Self.at(5, epoch: 9)])
    #expect(Self.refusals(mixed.joined("a", older)).isEmpty)
    var forgetful = Self.coordinator { $0.forgottenThrough = Self.at(4) }
    #expect(Self.refusals(forgetful.joined("a", Self.join(Self.at(3)))).isEmpty)
  }

  @Test("A coordinator accepts a participant that joins again with the coordinator's own commits")
  func own() {
    var coordinator = Self.coordinator()
    for name in ["a", "b"] { _ = coordinator.joined(name, Self.join(Self.at(1))) }
    let request = TransactionRequest(
      composite: "lift", event: "e", participants: ["a", "b"], body: [7], mode: .try)
    _ = coordinator.request(RequestID(caller: "me", number: 2), request)
    let own = Self.at(1, epoch: coordinator.epoch)
    var actions = coordinator.received(.yes(own, Self.move), from: "a")
    actions += coordinator.received(.yes(own, Self.move), from: "b")
    for case .record(let record) in actions { _ = coordinator.recorded(record) }
    _ = coordinator.received(.ack(own), from: "a")
    #expect(Self.refusals(coordinator.joined("a", Self.join(own))).isEmpty)
    _ = coordinator.received(.ack(own), from: "b")
    #expect(Self.refusals(coordinator.joined("b", Self.join(own))).isEmpty)
  }

  @Test(
    "A coordinator aborts unrecorded transactions after a timeout or when other nodes have joined"
  )
  func waits() {
    let lost = Self.join(Self.at(1), prepared: Self.at(2))
    var coordinator = Self.coordinator()
    #expect(coordinator.joined("a", lost).isEmpty)
    #expect(coordinator.received(.query(Self.at(2)), from: "a").isEmpty)
    #expect(coordinator.joined("b", Self.join(Self.at(1))).aborted == ["a"])
    #expect(coordinator.received(.query(Self.at(2)), from: "a").aborted == ["a"])

    var patient = Self.coordinator()
    #expect(patient.joined("a", lost).isEmpty)
    #expect(patient.fired(.join).aborted == ["a"])

    // The other participant has taken the event.
    var older = Self.coordinator()
    #expect(older.joined("a", lost).isEmpty)
    #expect(
      older.joined("b", Self.join(Self.at(2))) == [.refuse(.lacksCommit(Self.at(2), of: "b"))])

    var gone = Self.coordinator()
    #expect(gone.joined("a", lost).isEmpty)
    _ = gone.disconnected("a")
    #expect(gone.fired(.join).aborted.isEmpty)
  }
}
