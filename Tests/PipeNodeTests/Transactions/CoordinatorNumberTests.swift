import PipeMachines
import PipeNode
import PipeWire
import Testing

/// Tests of transaction numbers when a coordinator's name or journal has changed.
@Suite("The transaction numbers of a coordinator")
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
    "A coordinator's new transaction numbers exceed all numbers that a participant has received",
    arguments: [(4, 17), (1, 1), (1, 900)] as [(UInt64, UInt64)])
  func rises(epoch: UInt64, sequence: UInt64) {
    var coordinator = Self.started()
    let heard = Self.transaction(epoch, sequence)
    let joined = coordinator.connected("a", watermark: heard)
    #expect(joined == [.record(.start(epoch: epoch + 1)), .forget(heard)])
    _ = coordinator.connected("b")
    #expect(Self.asked(coordinator.request(Self.id, Self.request)).isEmpty)
    // The record of a former epoch.
    #expect(coordinator.recorded(.start(epoch: 1)) == [])
    let begun = Self.asked(coordinator.recorded(.start(epoch: epoch + 1)))
    #expect(begun == Array(repeating: Self.transaction(epoch + 1, 1), count: 2))
  }

  @Test("A coordinator keeps its epoch unless a participant has numbers from another coordinator")
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
    // No sound participant can have seen a number this high.
    #expect(next.connected("a", watermark: Self.transaction(.max, .max)) == [])
    #expect(next.epoch == 2)
  }

  @Test("A coordinator reports another coordinator's transactions as unknown, and aborts them")
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

  @Test("If no client waits for an event, a participant that evaluates the event gets an abort")
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

  @Test("A stopping coordinator does not begin an epoch, whatever records or participants arrive")
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
