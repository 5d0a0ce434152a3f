import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("Withdrawn requests of effects")
struct WithdrawnRequestTests {
  private static let id = RequestID(caller: "a", number: 1 << 32 | 7)
  private static let body = Array("door\nenter".utf8)
  private static let first = TransactionID(epoch: 1, sequence: 1)

  /// Returns a coordinator with a request by an effect of `a`, and the actions that followed.
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

  @Test("A PREPARE message names the request only to the participant whose effect sent the request")
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

  @Test("A withdrawn request is aborted, and accepted again when it is repeated")
  func withdrawn() {
    var (coordinator, _) = Self.asked()
    _ = coordinator.received(
      .yes(Self.first, ParticipantMove(version: 1, state: [])), from: "b")
    let actions = coordinator.received(.no(Self.first, .withdrawn), from: "a")
    #expect(actions.contains(.send(.abort(Self.first), to: "b")))
    #expect(actions.contains(.reply(Self.id, .atomic(.unavailable("door")))))
    #expect(coordinator.isIdle)
    // A late withdrawal has no effect.
    #expect(coordinator.withdraw(Self.id) == [])
    #expect(coordinator.request(Self.id, Self.request).prepared == ["a", "b"])
  }
}
