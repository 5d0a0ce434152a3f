import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("A coordinator, and an effect that does not want its event any more")
struct WithdrawnRequestTests {
  private static let id = RequestID(caller: "a", number: 1 << 32 | 7)
  private static let body = Array("door\nenter".utf8)
  private static let first = TransactionID(epoch: 1, sequence: 1)

  /// One that has been asked for an event by an effect of `a`, and what it has done then.
  private static func asked() -> (CoordinatorStateMachine, [CoordinatorStateMachine.Action]) {
    var coordinator = CoordinatorStateMachine(name: "door")
    _ = coordinator.start()
    _ = coordinator.recorded(.start(epoch: coordinator.epoch))
    for name in ["a", "b"] { _ = coordinator.connected(name) }
    let actions = coordinator.request(id, request)
    return (coordinator, actions)
  }

  private static var request: TransactionRequest {
    var request = TransactionRequest(
      composite: "door", event: "enter", participants: ["a", "b"], body: body, mode: .await(nil))
    request.emitter = ("a", 7)
    return request
  }

  @Test("names the request to the one whose effect has asked")
  func named() {
    let (_, actions) = Self.asked()
    for (participant, emitted) in [("a", UInt32(7)), ("b", nil)] {
      #expect(
        actions.contains(
          .send(
            .prepare(Self.first, event: Self.body, wantsChange: true, emitted: emitted),
            to: participant)))
    }
  }

  @Test("gives up what is not waited for, and takes it up where it is asked for anew")
  func withdrawn() {
    var (coordinator, _) = Self.asked()
    _ = coordinator.received(
      .yes(Self.first, ParticipantMove(version: 1, state: [])), from: "b")
    let actions = coordinator.received(.no(Self.first, .withdrawn), from: "a")
    #expect(actions.contains(.send(.abort(Self.first), to: "b")))
    #expect(actions.contains(.reply(Self.id, .atomic(.unavailable("door")))))
    #expect(coordinator.isIdle)
    // A withdrawal that comes behind finds nothing.
    #expect(coordinator.withdraw(Self.id) == [])
    #expect(coordinator.request(Self.id, Self.request).prepared == ["a", "b"])
  }
}
