import PipeMachines
import PipeNode
import PipeWire
import Testing

/// The expected transition for every phase and input: the next phase, and the actions. A cell that
/// is not listed keeps the phase and has no actions.
@Suite("The transition table of a participant")
struct ParticipantTableTests {
  private typealias Participant = ParticipantStateMachine

  // The phases are about transaction 5. Transaction 3 was applied before, and 7 comes later.
  private static let earlier = TransactionID(epoch: 1, sequence: 3)
  private static let own = TransactionID(epoch: 1, sequence: 5)
  private static let later = TransactionID(epoch: 1, sequence: 7)
  private static let move = ParticipantMove(version: 9, state: [1])

  private static func step(_ transaction: TransactionID) -> PreparedStep {
    PreparedStep(transaction: transaction, event: [2], move: move)
  }

  private typealias Input = (name: String, apply: (inout Participant) -> [Participant.Action])

  private static func prepare(
    _ transaction: TransactionID, _ evaluate: @escaping Participant.Evaluate = enabled
  ) -> (inout Participant) -> [Participant.Action] {
    { $0.prepare(transaction, event: [2], wantsChange: false, evaluate: evaluate) }
  }

  private static func deliver(
    _ transaction: TransactionID, _ evaluate: @escaping Participant.Evaluate = enabled
  ) -> (inout Participant) -> [Participant.Action] {
    { $0.deliver(transaction, event: [2], evaluate: evaluate) }
  }

  private static func enabled(_ event: [UInt8]) -> ParticipantAnswer { .moves(move) }

  private static func slow(_ event: [UInt8]) -> ParticipantAnswer {
    .takesTime(limit: .seconds(1), version: 8, state: [1])
  }

  private static let refusal = ParticipantRefusal.refused(.guard, version: 8, state: [1])

  private static func withheld(_ event: [UInt8]) throws(ParticipantRefusal) -> ParticipantAnswer {
    throw refusal
  }

  private static var phases: [(name: String, path: [(inout Participant) -> [Participant.Action]])] {
    [
      ("free", []),
      ("preparing", [prepare(own)]),
      ("prepared", [prepare(own), { $0.recorded(.prepared(step(own))) }]),
      (
        "applying",
        [prepare(own), { $0.recorded(.prepared(step(own))) }, { $0.commit(own) }]
      ),
      ("delivering", [deliver(own)]),
      ("evaluating", [prepare(own, slow)]),
      ("evaluating to deliver", [deliver(own, slow)]),
    ]
  }

  private static var inputs: [Input] {
    [
      ("start", { $0.start() }),
      ("connected", { $0.connected() }),
      ("disconnected", { $0.disconnected() }),
      ("timer", { $0.queryTimerFired() }),
      ("prepare 3", prepare(earlier)), ("prepare 5", prepare(own)), ("prepare 7", prepare(later)),
      ("prepare 7, withheld", prepare(later, withheld)), ("prepare 7, slow", prepare(later, slow)),
      ("commit 3", { $0.commit(earlier) }), ("commit 5", { $0.commit(own) }),
      ("commit 7", { $0.commit(later) }),
      ("abort 3", { $0.abort(earlier) }), ("abort 5", { $0.abort(own) }),
      ("abort 7", { $0.abort(later) }),
      ("deliver 3", deliver(earlier)), ("deliver 5", deliver(own)), ("deliver 7", deliver(later)),
      ("deliver 7, withheld", deliver(later, withheld)), ("deliver 7, slow", deliver(later, slow)),
      ("evaluated 5", { $0.evaluated(own, .success(move)) }),
      ("evaluated 5, withheld", { $0.evaluated(own, .failure(refusal)) }),
      ("evaluated 7", { $0.evaluated(later, .success(move)) }),
      ("limit 5", { $0.limitPassed(own) }), ("limit 7", { $0.limitPassed(later) }),
      ("PREPARED 5", { $0.recorded(.prepared(step(own))) }),
      ("PREPARED 7", { $0.recorded(.prepared(step(later))) }),
      ("STEP 5", { $0.recorded(.step(step(own))) }),
      ("STEP 7", { $0.recorded(.step(step(later))) }),
      ("step", { $0.stepped() }),
    ]
  }

  /// The cells, one per line: the phase, the input, the next phase if it differs, and the actions.
  private static let expected = """
    free                  | prepare 5             | preparing  | RECORD-PREPARED
    free                  | prepare 7             | preparing  | RECORD-PREPARED
    free                  | prepare 7, withheld   |            | NO-refused
    free                  | prepare 7, slow       | evaluating | LIMIT TIMER
    free                  | commit 3              |            | ACK
    free                  | commit 5              |            | PROBLEM
    free                  | commit 7              |            | PROBLEM
    free                  | deliver 5             | delivering | ENTER RECORD-STEP
    free                  | deliver 7             | delivering | ENTER RECORD-STEP
    free                  | deliver 7, withheld   |            | RESULT-refused
    free                  | deliver 7, slow       | evaluating | LIMIT TIMER
    preparing             | prepare 3             |            | NO-busy
    preparing             | prepare 7             |            | NO-busy
    preparing             | prepare 7, withheld   |            | NO-busy
    preparing             | prepare 7, slow       |            | NO-busy
    preparing             | commit 3              |            | ACK
    preparing             | commit 5              |            | PROBLEM
    preparing             | commit 7              |            | PROBLEM
    preparing             | abort 5               | free       | BACK UNFREEZE
    preparing             | deliver 3             |            | RESULT-busy
    preparing             | deliver 5             |            | RESULT-busy
    preparing             | deliver 7             |            | RESULT-busy
    preparing             | deliver 7, withheld   |            | RESULT-busy
    preparing             | deliver 7, slow       |            | RESULT-busy
    preparing             | PREPARED 5            | prepared   | YES TIMER
    prepared              | start                 |            | TIMER
    prepared              | connected             |            | QUERY TIMER
    prepared              | timer                 |            | QUERY TIMER
    prepared              | prepare 3             |            | NO-busy
    prepared              | prepare 5             |            | YES
    prepared              | prepare 7             |            | NO-busy
    prepared              | prepare 7, withheld   |            | NO-busy
    prepared              | prepare 7, slow       |            | NO-busy
    prepared              | commit 3              |            | ACK
    prepared              | commit 5              | applying   | STOP ENTER RECORD-STEP
    prepared              | commit 7              |            | PROBLEM
    prepared              | abort 5               | free       | STOP BACK UNFREEZE
    prepared              | deliver 3             |            | RESULT-busy
    prepared              | deliver 5             |            | RESULT-busy
    prepared              | deliver 7             |            | RESULT-busy
    prepared              | deliver 7, withheld   |            | RESULT-busy
    prepared              | deliver 7, slow       |            | RESULT-busy
    applying              | prepare 3             |            | NO-busy
    applying              | prepare 7             |            | NO-busy
    applying              | prepare 7, withheld   |            | NO-busy
    applying              | prepare 7, slow       |            | NO-busy
    applying              | commit 3              |            | ACK
    applying              | commit 7              |            | PROBLEM
    applying              | abort 5               |            | PROBLEM
    applying              | deliver 3             |            | RESULT-busy
    applying              | deliver 5             |            | RESULT-busy
    applying              | deliver 7             |            | RESULT-busy
    applying              | deliver 7, withheld   |            | RESULT-busy
    applying              | deliver 7, slow       |            | RESULT-busy
    applying              | STEP 5                | free       | ACK UNFREEZE
    delivering            | prepare 3             |            | NO-busy
    delivering            | prepare 7             |            | NO-busy
    delivering            | prepare 7, withheld   |            | NO-busy
    delivering            | prepare 7, slow       |            | NO-busy
    delivering            | commit 3              |            | ACK
    delivering            | commit 5              |            | PROBLEM
    delivering            | commit 7              |            | PROBLEM
    delivering            | deliver 3             |            | RESULT-busy
    delivering            | deliver 7             |            | RESULT-busy
    delivering            | deliver 7, withheld   |            | RESULT-busy
    delivering            | deliver 7, slow       |            | RESULT-busy
    delivering            | STEP 5                | free       | RESULT-moved UNFREEZE
    evaluating            | connected             |            | TIMER ASK
    evaluating            | disconnected          | free       | STOP-LIMIT STOP BACK UNFREEZE
    evaluating            | timer                 |            | TIMER ASK
    evaluating            | prepare 3             |            | NO-busy
    evaluating            | prepare 7             |            | NO-busy
    evaluating            | prepare 7, withheld   |            | NO-busy
    evaluating            | prepare 7, slow       |            | NO-busy
    evaluating            | commit 3              |            | ACK
    evaluating            | commit 5              |            | PROBLEM
    evaluating            | commit 7              |            | PROBLEM
    evaluating            | abort 5               | free       | STOP-LIMIT STOP BACK UNFREEZE
    evaluating            | deliver 3             |            | RESULT-busy
    evaluating            | deliver 7             |            | RESULT-busy
    evaluating            | deliver 7, withheld   |            | RESULT-busy
    evaluating            | deliver 7, slow       |            | RESULT-busy
    evaluating            | evaluated 5           | preparing  | STOP-LIMIT STOP RECORD-PREPARED
    evaluating            | evaluated 5, withheld | free       | STOP-LIMIT STOP BACK NO-refused UNFREEZE
    evaluating            | limit 5               | free       | STOP-LIMIT STOP BACK NO-overdue UNFREEZE
    evaluating to deliver | connected             |            | TIMER ASK
    evaluating to deliver | disconnected          | free       | STOP-LIMIT STOP BACK UNFREEZE
    evaluating to deliver | timer                 |            | TIMER ASK
    evaluating to deliver | prepare 3             |            | NO-busy
    evaluating to deliver | prepare 7             |            | NO-busy
    evaluating to deliver | prepare 7, withheld   |            | NO-busy
    evaluating to deliver | prepare 7, slow       |            | NO-busy
    evaluating to deliver | commit 3              |            | ACK
    evaluating to deliver | commit 5              |            | PROBLEM
    evaluating to deliver | commit 7              |            | PROBLEM
    evaluating to deliver | abort 5               | free       | STOP-LIMIT STOP BACK UNFREEZE
    evaluating to deliver | deliver 3             |            | RESULT-busy
    evaluating to deliver | deliver 7             |            | RESULT-busy
    evaluating to deliver | deliver 7, withheld   |            | RESULT-busy
    evaluating to deliver | deliver 7, slow       |            | RESULT-busy
    evaluating to deliver | evaluated 5           | delivering | STOP-LIMIT STOP ENTER RECORD-STEP
    evaluating to deliver | evaluated 5, withheld | free       | STOP-LIMIT STOP BACK RESULT-refused UNFREEZE
    evaluating to deliver | limit 5               | free       | STOP-LIMIT STOP BACK RESULT-overdue UNFREEZE
    """

  @Test(
    "Each input has the listed effect in each phase of a participant, and no other effect",
    arguments: 0..<7)
  func cells(index: Int) {
    let phase = Self.phases[index].name
    let expected = TextTable.rows(Self.expected).filter { $0[0] == phase }
    #expect(Self.cells(index) == expected)
  }

  private static func cells(_ index: Int) -> [[String]] {
    inputs.compactMap { name, apply in
      var participant = Participant(applied: earlier, version: 8)
      for input in phases[index].path { _ = input(&participant) }
      let before = participant.phase
      let done = apply(&participant).map(word)
      if participant.phase == before && done.isEmpty { return nil }
      let phase = participant.phase == before ? "" : self.name(of: participant.phase)
      return [phases[index].name, name, phase, done.joined(separator: " ")]
    }
  }

  private static func name(of phase: Participant.Phase) -> String {
    switch phase {
    case .free: "free"
    case .evaluating: "evaluating"
    case .preparing: "preparing"
    case .prepared: "prepared"
    case .applying: "applying"
    case .delivering: "delivering"
    }
  }

  private static func word(_ action: Participant.Action) -> String {
    switch action {
    case .record(.prepared): "RECORD-PREPARED"
    case .record(.step): "RECORD-STEP"
    case .send(.yes): "YES"
    case .send(.no(_, .busy)): "NO-busy"
    case .send(.no(_, .withdrawn)): "NO-withdrawn"
    case .send(.no(_, .refused(.timedOut, _, _))): "NO-overdue"
    case .send(.no(_, .refused)): "NO-refused"
    case .send(.ack): "ACK"
    case .send(.query): "QUERY"
    case .send(.evaluating): "ASK"
    case .send(.delivered(_, .success)): "RESULT-moved"
    case .send(.delivered(_, .failure(.busy))): "RESULT-busy"
    case .send(.delivered(_, .failure(.withdrawn))): "RESULT-withdrawn"
    case .send(.delivered(_, .failure(.refused(.timedOut, _, _)))): "RESULT-overdue"
    case .send(.delivered(_, .failure(.refused))): "RESULT-refused"
    case .send(.changed), .send(.instanceChanged): "CHANGED"
    case .enter: "ENTER"
    case .startLimit: "LIMIT"
    case .stopLimit: "STOP-LIMIT"
    case .rollBack: "BACK"
    case .unfreeze: "UNFREEZE"
    case .startQueryTimer: "TIMER"
    case .stopQueryTimer: "STOP"
    case .report: "PROBLEM"
    }
  }

  @Test("A participant accepts other inputs only in the phase 'free'", arguments: 0..<7)
  func frozen(index: Int) {
    var participant = Participant(applied: Self.earlier, version: 8)
    for input in Self.phases[index].path { _ = input(&participant) }
    #expect(participant.acceptsInputs == (index == 0))
  }

  @Test("A restored participant is prepared unless its journal has a later step")
  func recovery() {
    let prepared = Self.step(Self.own)
    #expect(
      Participant(prepared: prepared, applied: Self.earlier, version: 8).phase
        == .prepared(prepared))
    // A step of its own, or the step of the transaction.
    #expect(Participant(prepared: prepared, applied: Self.earlier, version: 9).phase == .free)
    #expect(Participant(prepared: prepared, applied: Self.own, version: 9).phase == .free)
    #expect(Participant(applied: Self.earlier, version: 8).phase == .free)
    #expect(Participant(prepared: prepared, version: 20).watermark == Self.own)
  }

  @Test("A transition has no effect if it returns after a timeout or an abort")
  func late() {
    var participant = Participant()
    _ = participant.prepare(Self.own, event: [], wantsChange: true, evaluate: Self.slow)
    #expect(
      participant.limitPassed(Self.own) == [
        .stopLimit, .stopQueryTimer, .rollBack,
        .send(.no(Self.own, .refused(.timedOut, version: 8, state: [1]))),
        .unfreeze,
      ])
    #expect(participant.evaluated(Self.own, .success(Self.move)) == [])
    #expect(participant.acceptsInputs)
    // The coordinator is notified of the next step, because another state may evaluate faster.
    #expect(participant.stepped() == [.send(.changed)])
    _ = participant.prepare(Self.later, event: [], wantsChange: false, evaluate: Self.slow)
    #expect(
      participant.abort(Self.later) == [.stopLimit, .stopQueryTimer, .rollBack, .unfreeze])
    #expect(participant.limitPassed(Self.later) == [])
    #expect(participant.evaluated(Self.later, .success(Self.move)) == [])
  }

  @Test(
    "After a refusal, a participant reports its next step to the coordinator once, if requested")
  func change() {
    var participant = Participant()
    let refused = participant.prepare(
      Self.earlier, event: [], wantsChange: true, evaluate: Self.withheld)
    #expect(refused.count == 1)
    #expect(participant.stepped() == [.send(.changed)])
    #expect(participant.stepped() == [])
  }

  @Test("A participant that refused as busy notifies the coordinator when the participant is free")
  func release() {
    var participant = Participant()
    _ = participant.prepare(Self.earlier, event: [], wantsChange: false, evaluate: Self.enabled)
    _ = participant.prepare(Self.own, event: [], wantsChange: true, evaluate: Self.enabled)
    #expect(
      participant.abort(Self.earlier) == [.rollBack, .send(.changed), .unfreeze])
    #expect(participant.stepped() == [])
    // An event that was refused because of the state causes no notification when the participant
    // becomes free.
    _ = participant.prepare(Self.later, event: [], wantsChange: true, evaluate: Self.slow)
    #expect(participant.limitPassed(Self.later).contains(.send(.changed)) == false)
    #expect(participant.stepped() == [.send(.changed)])
  }
}
