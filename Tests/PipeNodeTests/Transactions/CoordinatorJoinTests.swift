import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("A coordinator that has just started")
struct CoordinatorJoinTests {
  private typealias Action = CoordinatorStateMachine.Action

  private static let id = RequestID(caller: "me", number: 1)

  private static func request(_ mode: TransactionMode = .try) -> TransactionRequest {
    TransactionRequest(
      composite: "lift", event: "e", participants: ["a", "b"], body: [7], mode: mode)
  }

  /// One that `a` has joined, and that was asked for an event of `a` and `b`.
  private static func asked(_ mode: TransactionMode = .try) -> (CoordinatorStateMachine, [Action]) {
    var coordinator = CoordinatorStateMachine(name: "lift")
    _ = coordinator.start()
    _ = coordinator.recorded(.start(epoch: 1))
    _ = coordinator.connected("a")
    let actions = coordinator.request(id, request(mode))
    return (coordinator, actions)
  }

  private static func unavailable(_ name: String) -> Action {
    .reply(id, .atomic(.unavailable(name)))
  }

  @Test("lets an event that is tried once wait for participants that are on their way")
  func waits() {
    var (coordinator, actions) = Self.asked()
    #expect(actions == [.startTimer(.locks(Self.id))])
    let prepared = coordinator.connected("b").compactMap { action -> String? in
      if case .send(.prepare, let name) = action { name } else { nil }
    }
    #expect(prepared == ["a", "b"])
  }

  @Test("says who is missing when those who run have joined, or the request has waited enough")
  func missing() {
    var (coordinator, _) = Self.asked()
    #expect(coordinator.fired(.join).contains(Self.unavailable("b")))
    // From then on it says so at once.
    coordinator.renew(Self.id)
    #expect(coordinator.request(Self.id, Self.request()).contains(Self.unavailable("b")))
    var (impatient, _) = Self.asked()
    #expect(impatient.fired(.locks(Self.id)).contains(Self.unavailable("b")))
  }

  @Test("tells one that has promised the end of that, before it asks it anew")
  func prepared() {
    var (coordinator, _) = Self.asked()
    let old = TransactionID(epoch: coordinator.epoch - 1, sequence: 4)
    let messages = coordinator.connected("b", watermark: old, prepared: old).compactMap { action in
      if case .send(let message, to: "b") = action { message } else { nil }
    }
    #expect(messages.count == 2)
    #expect(messages.first == .abort(old))
    guard case .prepare = messages.last else {
      Issue.record("it was not asked anew: \(messages)")
      return
    }
  }

  @Test("does not wait for one that has joined and is gone")
  func gone() {
    var (coordinator, _) = Self.asked()
    _ = coordinator.fired(.locks(Self.id))
    _ = coordinator.connected("b")
    _ = coordinator.disconnected("b")
    coordinator.renew(Self.id)
    #expect(coordinator.request(Self.id, Self.request()).contains(Self.unavailable("b")))
  }
}
