import PipeMachines
import PipeNode
import PipeWire
import Testing

/// What becomes of numbers where a coordinator has another name, or another journal, than before.
@Suite("The numbers that a coordinator gives")
struct CoordinatorNumberTests {
  private typealias Action = CoordinatorStateMachine.Action

  private static let id = RequestID(caller: "me", number: 1)

  private static let request = TransactionRequest(
    composite: "lift", event: "e", participants: ["a", "b"], body: [7], mode: .try)

  private static func transaction(_ epoch: UInt64, _ sequence: UInt64) -> TransactionID {
    TransactionID(epoch: epoch, sequence: sequence)
  }

  private static func started(
    _ journal: CoordinatorJournal = CoordinatorJournal()
  ) -> CoordinatorStateMachine {
    var coordinator = CoordinatorStateMachine(name: "lift", journal: journal)
    _ = coordinator.start()
    _ = coordinator.recorded(.start(epoch: coordinator.epoch))
    return coordinator
  }

  private static func asked(_ actions: [Action]) -> [TransactionID] {
    actions.compactMap {
      if case .send(.prepare(let transaction, _, _, _), _) = $0 { transaction } else { nil }
    }
  }

  @Test(
    "they are above all that a participant has heard of, once that is recorded",
    arguments: [(4, 17), (1, 1), (1, 900)] as [(UInt64, UInt64)])
  func rises(epoch: UInt64, sequence: UInt64) {
    var coordinator = Self.started()
    let heard = Self.transaction(epoch, sequence)
    let joined = coordinator.connected("a", watermark: heard)
    #expect(joined == [.record(.start(epoch: epoch + 1)), .forget(heard)])
    _ = coordinator.connected("b")
    #expect(Self.asked(coordinator.request(Self.id, Self.request)).isEmpty)
    // The record of an epoch that is over.
    #expect(coordinator.recorded(.start(epoch: 1)) == [])
    let begun = Self.asked(coordinator.recorded(.start(epoch: epoch + 1)))
    #expect(begun == Array(repeating: Self.transaction(epoch + 1, 1), count: 2))
  }

  @Test("a participant that has heard of its own numbers changes nothing")
  func stays() {
    var coordinator = Self.started()
    _ = coordinator.connected("a")
    _ = coordinator.connected("b")
    _ = coordinator.request(Self.id, Self.request)
    _ = coordinator.disconnected("a")
    #expect(coordinator.connected("a", watermark: Self.transaction(1, 1)) == [])
    var next = Self.started(
      {
        var journal = CoordinatorJournal()
        journal.epoch = 1
        return journal
      }())
    #expect(next.connected("a", watermark: Self.transaction(1, 99)) == [])
    // No sound participant has heard of so high a one.
    #expect(next.connected("a", watermark: Self.transaction(.max, .max)) == [])
    #expect(next.epoch == 2)
  }

  @Test("of numbers that it has not given itself it says nothing, but ends promises, and tells")
  func foreign() {
    var coordinator = Self.started()
    let heard = Self.transaction(4, 17)
    _ = coordinator.connected("a", watermark: heard)
    _ = coordinator.recorded(.start(epoch: 5))
    for foreign in [heard, Self.transaction(3, 1)] {
      #expect(
        coordinator.ask(Self.id, for: foreign) == [
          .reply(Self.id, .atomic(.unknown(foreign)))
        ])
    }
    #expect(
      coordinator.received(.query(heard), from: "a") == [
        .send(.abort(heard), to: "a"), .report(.queryOfForgotten(heard, from: "a")),
      ])
    let own = Self.transaction(5, 1)
    #expect(coordinator.received(.query(own), from: "a") == [.send(.abort(own), to: "a")])
  }

  @Test("who asks with nothing promised is told to end it where nobody waits; that is no problem")
  func evaluating() throws {
    var coordinator = Self.started()
    let heard = Self.transaction(4, 17)
    _ = coordinator.connected("a", watermark: heard)
    _ = coordinator.connected("b")
    let begun = Self.asked(
      coordinator.request(Self.id, Self.request) + coordinator.recorded(.start(epoch: 5)))
    let own = try #require(begun.first)
    #expect(
      coordinator.received(.evaluating(heard), from: "a") == [.send(.abort(heard), to: "a")])
    #expect(coordinator.received(.evaluating(own), from: "a") == [])
    _ = coordinator.disconnected("b")
    #expect(coordinator.received(.evaluating(own), from: "a") == [.send(.abort(own), to: "a")])
  }

  @Test("one that is to end does not begin again, whatever is recorded or heard of")
  func ended() {
    var coordinator = CoordinatorStateMachine(name: "lift")
    _ = coordinator.start()
    _ = coordinator.stop()
    _ = coordinator.recorded(.start(epoch: 1))
    for name in ["a", "b"] {
      #expect(coordinator.connected(name, watermark: Self.transaction(4, 17)) == [])
    }
    #expect(Self.asked(coordinator.request(Self.id, Self.request)).isEmpty)
  }
}
