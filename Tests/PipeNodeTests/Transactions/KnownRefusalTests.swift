import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("A coordinator that remembers refusals")
struct KnownRefusalTests {
  private typealias Action = CoordinatorStateMachine.Action

  private static let closed = Array("\"closed\"".utf8)
  private static let open = Array("\"open\"".utf8)
  private static let refusal = ParticipantRefusal.refused(
    .noTransition, version: 0, state: closed)

  private func id(_ number: UInt64) -> RequestID { RequestID(caller: "me", number: number) }

  private func transaction(_ sequence: UInt64) -> TransactionID {
    TransactionID(epoch: 1, sequence: sequence)
  }

  private func request(
    _ participants: [String], _ mode: TransactionMode, question: String = "enter"
  ) -> TransactionRequest {
    TransactionRequest(
      composite: "door", event: question, participants: participants,
      body: Array("door\n\(question)".utf8), decisiveBody: Array(question.utf8), mode: mode)
  }

  /// Returns a coordinator whose participant `b`, which is closed, has refused `enter` for request
  /// 1 of `a` and `b`.
  private func refused(_ mode: TransactionMode = .await(nil)) -> CoordinatorStateMachine {
    var coordinator = CoordinatorStateMachine(name: "door")
    _ = coordinator.start()
    _ = coordinator.recorded(.start(epoch: coordinator.epoch))
    for name in ["a", "b", "c"] { _ = coordinator.connected(name) }
    _ = coordinator.request(id(1), request(["a", "b"], mode))
    _ = coordinator.received(.no(transaction(1), Self.refusal), from: "b")
    return coordinator
  }

  /// Commits another event of `b` and `c`, after which `b` is in the given state.
  private func move(
    _ state: [UInt8], version: UInt64, as sequence: UInt64,
    in coordinator: inout CoordinatorStateMachine
  ) -> [Action] {
    let caller = id(100 + sequence)
    var actions = coordinator.request(caller, request(["b", "c"], .try, question: "turn"))
    let move = ParticipantMove(version: version, state: state)
    for name in ["b", "c"] {
      actions += coordinator.received(.yes(transaction(sequence), move), from: name)
    }
    for case .record(let record) in actions { actions += coordinator.recorded(record) }
    for name in ["b", "c"] {
      actions += coordinator.received(.ack(transaction(sequence)), from: name)
    }
    return actions.filter {
      if case .send(.prepare(_, _, wantsChange: false, _), _) = $0 { false } else { true }
    }
  }

  @Test("A refused event is retried when a commit leads to a state that has not refused the event")
  func commits() {
    var coordinator = refused()
    #expect(move(Self.closed, version: 1, as: 2, in: &coordinator).prepared == [])
    #expect(move(Self.open, version: 2, as: 3, in: &coordinator).prepared == ["a", "b"])
  }

  @Test("A later request for a refused event waits as well, unless the request has the mode 'try'")
  func laterRequests() {
    var coordinator = refused()
    let later = coordinator.request(id(2), request(["b", "c"], .await(nil)))
    #expect(later == [.startTimer(.retry(id(2)))])
    #expect(coordinator.request(id(3), request(["b", "c"], .try)).prepared == ["b", "c"])
  }

  @Test("An event is tried at once if only other events have been refused")
  func otherEvents() {
    var coordinator = refused()
    let other = coordinator.request(id(2), request(["b", "c"], .await(nil), question: "leave"))
    #expect(other.prepared == ["b", "c"])
  }

  @Test(
    "A refused event is retried when the participant reports a step in a message or in its feed")
  func ownSteps() {
    for tellsByFeed in [false, true] {
      var coordinator = refused()
      #expect(coordinator.reported("b", version: 0) == [], "it is older than the refusal")
      let actions =
        tellsByFeed
        ? coordinator.reported("b", version: 1) : coordinator.received(.changed, from: "b")
      #expect(actions.prepared == ["a", "b"])
    }
  }

  @Test("A refused event is retried after a while, in case a report was lost")
  func insists() {
    var coordinator = refused()
    _ = move(Self.closed, version: 1, as: 2, in: &coordinator)
    #expect(coordinator.fired(.retry(id(1))).prepared == ["a", "b"])
    let again = coordinator.received(.no(transaction(3), Self.refusal), from: "b")
    #expect(again.contains(.startTimer(.retry(id(1)))))
    #expect(coordinator.fired(.retry(id(1))).prepared == ["a", "b"])
  }

  @Test("A participant's refusals are forgotten when the participant disconnects")
  func reconnection() {
    var coordinator = refused()
    _ = coordinator.disconnected("b")
    #expect(coordinator.connected("b").prepared == ["a", "b"])
  }

  @Test("A request gets the known refusal as its reply at its deadline")
  func deadline() {
    var coordinator = refused(.await(.seconds(1)))
    _ = move(Self.closed, version: 1, as: 2, in: &coordinator)
    let blocker = BlockingParticipant(
      participant: "b", state: "closed", version: 1, reason: .noTransition)
    #expect(
      coordinator.fired(.deadline(id(1), .seconds(1))).contains(
        .reply(id(1), .atomic(.refused([blocker])))))
    #expect(coordinator.isIdle)
  }
}
