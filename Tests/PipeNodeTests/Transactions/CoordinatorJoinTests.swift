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

  /// Returns a coordinator that `a` has joined, with a pending request for `a` and `b`.
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

  @Test("A request without retries waits for participants that are joining")
  func waits() {
    var (coordinator, actions) = Self.asked()
    #expect(actions == [.startTimer(.locks(Self.id))])
    let prepared = coordinator.connected("b").compactMap { action -> String? in
      if case .send(.prepare, let name) = action { name } else { nil }
    }
    #expect(prepared == ["a", "b"])
  }

  @Test("A reply names a missing participant after a timeout, or when all others have joined")
  func missing() {
    var (coordinator, _) = Self.asked()
    #expect(coordinator.fired(.join).contains(Self.unavailable("b")))
    // Later requests are answered at once.
    coordinator.allowRetry(Self.id)
    #expect(coordinator.request(Self.id, Self.request()).contains(Self.unavailable("b")))
    var (impatient, _) = Self.asked()
    #expect(impatient.fired(.locks(Self.id)).contains(Self.unavailable("b")))
  }

  @Test("A prepared participant gets its transaction's outcome before a new request")
  func prepared() {
    var (coordinator, _) = Self.asked()
    let old = TransactionID(epoch: coordinator.epoch - 1, sequence: 4)
    let messages = coordinator.connected("b", watermark: old, prepared: [old]).compactMap {
      action in
      if case .send(let message, to: "b") = action { message } else { nil }
    }
    #expect(messages.count == 2)
    #expect(messages.first == .abort(old))
    guard case .prepare = messages.last else {
      Issue.record("it was not asked again: \(messages)")
      return
    }
  }

  @Test(
    "A node that joins repeatedly before its first report may still take the event that it is asked for"
  )
  func beforeFirstReport() {
    var (coordinator, _) = Self.asked()
    let last = coordinator.lastTransaction(beforeStartOf: "b")
    #expect(last == TransactionID(epoch: 1, sequence: 0))
    let event = TransactionID(epoch: 1, sequence: 1)
    let move = ParticipantMove(version: 1, state: [])
    for _ in 0..<2 {
      _ = coordinator.joined("b", ParticipantJoin(watermark: .zero, prepared: [], history: nil))
      #expect(coordinator.lastTransaction(beforeStartOf: "b") == last)
      #expect(coordinator.lastTransaction(beforeStartOf: "c") == event)
    }
    // The answer of `b` comes from a process whose first report had arrived before.
    _ = coordinator.received(.yes(event, move), from: "b")
    #expect(coordinator.lastTransaction(beforeStartOf: "b") == event)
    #expect(coordinator.lastTransaction(beforeStartOf: "a") == last)
  }

  @Test("A coordinator does not wait for a participant that has joined and left")
  func gone() {
    var (coordinator, _) = Self.asked()
    _ = coordinator.fired(.locks(Self.id))
    _ = coordinator.connected("b")
    _ = coordinator.disconnected("b")
    coordinator.allowRetry(Self.id)
    #expect(coordinator.request(Self.id, Self.request()).contains(Self.unavailable("b")))
  }
}
