import PipeClient
import PipeMachines
import PipeWire
import Testing

/// Tests of the verdict for each explanation of a participant and of a coordinator.
@Suite("The verdict on whether an event is enabled")
struct EnablednessTests {
  private static let open = CaseDescription(name: "open")
  private static let go = CaseDescription(
    name: "go", fields: [CaseDescription.Field(name: "floor", type: "Int")])
  private static let transaction = TransactionID(epoch: 3, sequence: 17)
  private static let prepared = InDoubtTransaction(
    participant: "door", composite: "lift", event: "stop", transaction: transaction, since: 5)
  private static let connected = CoordinatorExplanation(connected: ["door", "motor"])

  /// Returns a question about an event of the lift.
  private static func question(_ event: CaseDescription = open) throws -> EnablednessQuestion {
    let composition = try Composition(
      [
        CompositeDeclaration(
          "lift", components: ["door", "motor"], synchronize: [Synchronization(event.name)])
      ], of: ["door": [event.name], "motor": [event.name]])
    return EnablednessQuestion(event, composition.vectors[0], coordinator: "house")
  }

  private static func explained(
    _ evaluation: Evaluation, _ hold: NodeExplanation.Hold? = nil
  ) -> NodeAnswer<NodeExplanation> {
    .success(
      NodeExplanation(state: "shut", version: 4, events: ["open": evaluation], hold: hold))
  }

  /// Returns the verdict for the door's explanation when the motor accepts the event.
  private static func answer(
    _ door: NodeAnswer<NodeExplanation>, _ coordinator: NodeAnswer<CoordinatorExplanation>
  ) throws -> EventEnabledness {
    try question().answer(
      nodes: ["door": door, "motor": explained(.accepted)], coordinators: ["house": coordinator])
  }

  @Test(
    "If a participant blocks an event, the verdict names the participant and its reason",
    arguments: [
      (explained(.refused(.noTransition)), .refused(.noTransition)),
      (explained(.refused(.guard)), .refused(.guard)),
      (explained(.refused(.thrown("no"))), .refused(.thrown("no"))),
      (explained(.asynchronous), .refused(.asynchronous)),
      (explained(.accepted, .transaction(prepared)), .inTransaction(transaction)),
      // A transaction may change the state, so the verdict of the current state does not count.
      (explained(.refused(.noTransition), .doubt(prepared)), .inDoubt(prepared)),
      (explained(.refused(.noTransition), .transition), .inTransition),
      (explained(.accepted, .pipes(["out"])), .pipesFull(["out"])),
      // A full pipe does not change the state.
      (explained(.refused(.guard), .pipes(["out"])), .refused(.guard)),
      (.failure(.down("failed")), .down("failed")),
      (.failure(.silent(.seconds(2))), .silent(.seconds(2))),
    ] as [(NodeAnswer<NodeExplanation>, EventBlocker)])
  func obstacles(door: NodeAnswer<NodeExplanation>, blocker: EventBlocker) throws {
    let found = try Self.answer(door, .success(Self.connected))
    #expect(found.verdict == .blocked)
    #expect(found.blockingAnswers.map(\.participant) == ["door"])
    #expect(found.blockingAnswers.first?.blocker == blocker)
    #expect(found.answers.map(\.verdict) == [.blocked, .enabled])
    #expect(found.composite == "lift" && found.participants == ["door", "motor"])
  }

  @Test(
    "Only a run can decide whether an asynchronous transition accepts an event",
    arguments: [false, true])
  func undetermined(isGuardedElsewhere: Bool) throws {
    let motor = Self.explained(isGuardedElsewhere ? .dependsOnValues : .accepted)
    let found = try Self.question().answer(
      nodes: ["door": Self.explained(.selfContained), "motor": motor],
      coordinators: ["house": .success(Self.connected)])
    #expect(found.verdict == .undetermined)
    #expect(found.blockingAnswers.isEmpty)
    for evaluation in [Evaluation.selfContained, .asynchronous] {
      let alone = EnablednessQuestion(Self.open, of: "door").answer(
        nodes: ["door": Self.explained(evaluation)], coordinators: [:])
      #expect(alone.verdict == .undetermined)
    }
  }

  @Test("An event is enabled if all participants accept it, and the answer shows their states")
  func enabled() throws {
    let found = try Self.answer(Self.explained(.accepted), .success(Self.connected))
    #expect(found.verdict == .enabled)
    #expect(found.blockingAnswers.isEmpty)
    #expect(found.answers.map(\.state) == ["shut", "shut"])
    #expect(found.answers.map(\.version) == [4, 4])
  }

  @Test("If a guard needs missing values, the verdict is open unless another participant blocks")
  func values() throws {
    let found = try Self.answer(Self.explained(.dependsOnValues), .success(Self.connected))
    #expect(found.verdict == .dependsOnValue)
    let both = try Self.question().answer(
      nodes: ["door": Self.explained(.dependsOnValues), "motor": Self.explained(.refused(.guard))],
      coordinators: ["house": .success(Self.connected)])
    #expect(both.verdict == .blocked)
    #expect(both.answers.map(\.verdict) == [.dependsOnValue, .blocked])
  }

  @Test("An event is blocked if its coordinator is disconnected, busy or unavailable")
  func coordinator() throws {
    let alone = CoordinatorExplanation(connected: ["motor"])
    let cut = try Self.answer(Self.explained(.accepted), .success(alone))
    #expect(cut.blockingAnswers.map(\.blocker) == [.notConnected])
    let busy = CoordinatorExplanation(
      connected: ["door", "motor"],
      transactions: [.init(transaction: Self.transaction, participants: ["door", "panel"])])
    let locked = try Self.answer(Self.explained(.accepted), .success(busy))
    #expect(locked.blockingAnswers.map(\.blocker) == [.inTransaction(Self.transaction)])
    let down = try Self.answer(Self.explained(.accepted), .failure(.down("backing off")))
    #expect(down.verdict == .blocked)
    #expect(down.answers.map(\.participant) == ["house", "door", "motor"])
    #expect(down.answers.map(\.blocker) == [.down("backing off"), nil, nil])
  }

  @Test(
    "An event of one node needs no coordinator, and is undetermined if its step is asynchronous")
  func alone() {
    let question = EnablednessQuestion(Self.open, of: "door")
    func answer(_ door: NodeAnswer<NodeExplanation>) -> EventEnabledness {
      question.answer(nodes: ["door": door], coordinators: [:])
    }
    #expect(answer(Self.explained(.asynchronous)).verdict == .undetermined)
    #expect(answer(Self.explained(.accepted)).composite == nil)
    #expect(answer(Self.explained(.accepted, .doubt(Self.prepared))).verdict == .blocked)
  }

  @Test("A set of events is enabled if one of its events is enabled")
  func verdict() {
    func events(_ verdicts: EventEnabledness.Verdict...) -> EventEnabledness.Verdict {
      EnabledEvents(
        name: "door", kind: .machine, state: "shut", version: 1,
        events: verdicts.map { verdict in
          EventEnabledness(
            event: Self.go, participants: ["door"],
            answers: [.init(participant: "door", verdict: verdict)])
        }
      ).verdict
    }
    #expect(events(.blocked, .enabled, .dependsOnValue) == .enabled)
    #expect(events(.blocked, .dependsOnValue) == .dependsOnValue)
    #expect(events(.blocked) == .blocked)
  }
}
