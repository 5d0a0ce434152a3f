import PipeMachines
import PipeNode
import PipeWire
import Testing

/// The expected transition for every phase and input of a transaction at its coordinator. A cell
/// that is not listed keeps the phase and has no actions.
@Suite("The transition table of a coordinator's transaction")
struct TransactionTableTests {
  private static let id = TransactionID(epoch: 2, sequence: 4)
  private static let move = ParticipantMove(version: 3, state: [1])

  private static var asked: TransactionStateMachine { .atomic(id, ["a", "b"]) }

  /// The phases. In each, `a` has answered as far as possible, and `b` has not.
  private static var phases: [(name: String, make: () -> TransactionStateMachine)] {
    [
      ("collecting", { after(asked, .yes("a", move)) }),
      ("recording", { after(asked, .yes("a", move), .yes("b", move)) }),
      (
        "committing",
        { after(asked, .yes("a", move), .yes("b", move), .recorded, .ack("a")) }
      ),
      (
        "delivering",
        {
          after(
            .broadcast(id, ["a", "b"], unavailable: []), .delivered("a", .success(3)))
        }
      ),
    ]
  }

  private static func after(
    _ transaction: TransactionStateMachine, _ inputs: TransactionStateMachine.Input...
  ) -> TransactionStateMachine {
    var transaction = transaction
    for input in inputs { _ = transaction.take(input) }
    return transaction
  }

  private static let inputs: [(name: String, input: TransactionStateMachine.Input)] = [
    ("yes a", .yes("a", move)), ("yes b", .yes("b", move)), ("yes x", .yes("x", move)),
    ("no a", .no("a", .busy)), ("no b", .no("b", .busy)), ("no x", .no("x", .busy)),
    ("refused b", .no("b", .refused(.guard, version: 1, state: Array("\"s\"".utf8)))),
    ("ack a", .ack("a")), ("ack b", .ack("b")), ("ack x", .ack("x")),
    ("query a", .query("a")), ("query b", .query("b")), ("query x", .query("x")),
    ("moved a", .delivered("a", .success(9))),
    ("moved b", .delivered("b", .success(9))), ("busy b", .delivered("b", .failure(.busy))),
    ("COMMIT", .recorded), ("votes overdue", .votesOverdue), ("resend due", .resendDue),
    ("connected a", .connected("a")), ("connected b", .connected("b")),
    ("disconnected a", .disconnected("a")), ("disconnected b", .disconnected("b")),
    ("disconnected x", .disconnected("x")),
  ]

  /// The cells, one per line: the phase, the input, the next phase if it differs, and the actions.
  private static let expected = """
    collecting | yes b          | recording  | RECORD
    collecting | no a           |            | ABORT busy to b
    collecting | no b           |            | ABORT busy to a
    collecting | refused b      |            | ABORT refused to a
    collecting | votes overdue  |            | ABORT unavailable b to a b
    collecting | disconnected a |            | ABORT unavailable a to a b
    collecting | disconnected b |            | ABORT unavailable b to a b
    recording  | COMMIT         | committing | COMMIT
    committing | yes a          |            | RESEND a
    committing | yes b          |            | RESEND b
    committing | ack b          | committing | FINISH
    committing | query a        |            | RESEND a
    committing | query b        |            | RESEND b
    committing | resend due     |            | RESEND b
    committing | connected b    |            | RESEND b
    delivering | moved b        | delivering | ANSWER
    delivering | busy b         | delivering | ANSWER
    delivering | votes overdue  |            | ANSWER
    delivering | disconnected b | delivering | ANSWER
    """

  @Test(
    "Each input has the listed effect in each phase of a transaction, and no other effect",
    arguments: 0..<4)
  func cells(index: Int) {
    let phase = Self.phases[index].name
    let expected = TextTable.rows(Self.expected).filter { $0[0] == phase }
    #expect(Self.cells(index) == expected)
  }

  private static func cells(_ index: Int) -> [[String]] {
    inputs.compactMap { name, input in
      var transaction = phases[index].make()
      let before = transaction.phase
      let decision = word(transaction.take(input)).joined(separator: " ")
      if transaction.phase == before && decision.isEmpty { return nil }
      let phase = transaction.phase == before ? "" : self.name(of: transaction.phase)
      return [phases[index].name, name, phase, decision]
    }
  }

  private static func name(of phase: TransactionStateMachine.Phase) -> String {
    switch phase {
    case .collecting: "collecting"
    case .recording: "recording"
    case .committing: "committing"
    case .delivering: "delivering"
    }
  }

  private static func word(_ decision: TransactionStateMachine.Decision) -> [String] {
    switch decision {
    case .nothing: []
    case .recordCommit: ["RECORD"]
    case .commit: ["COMMIT"]
    case .resend(let to): ["RESEND"] + to
    case .abort(.busy, let to): ["ABORT busy to"] + to
    case .abort(.refused, let to): ["ABORT refused to"] + to
    case .abort(.unavailable(let name), let to): ["ABORT unavailable \(name) to"] + to
    case .abort(.committed, _), .abort(.unknown, _): ["ABORT with a wrong reply"]
    case .finish: ["FINISH"]
    case .answer: ["ANSWER"]
    }
  }

  @Test("A refusal names the participant, its state and the reason")
  func refusal() {
    var transaction = Self.asked
    let refusal = ParticipantRefusal.refused(
      .noTransition, version: 6, state: Array("\"closed\"".utf8))
    let blocker = BlockingParticipant(
      participant: "b", state: "closed", version: 6, reason: .noTransition)
    #expect(transaction.take(.no("b", refusal)) == .abort(.refused([blocker]), ["a"]))
  }
}
