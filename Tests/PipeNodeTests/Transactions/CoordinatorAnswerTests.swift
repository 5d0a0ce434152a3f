import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("The replies that a coordinator keeps")
struct CoordinatorAnswerTests {
  private static let request = TransactionRequest(
    composite: "lift", event: "e", participants: ["a"], body: [7], mode: .try)
  /// A request with an unknown participant, which is answered at once.
  private static let impossible = TransactionRequest(
    composite: "lift", event: "e", participants: ["x"], body: [7], mode: .try)

  private static func coordinator(
    _ journal: CoordinatorJournal = CoordinatorJournal()
  ) -> CoordinatorStateMachine {
    var coordinator = CoordinatorStateMachine(name: "lift", journal: journal, resultCapacity: 64)
    _ = coordinator.start()
    _ = coordinator.recorded(.start(epoch: journal.epoch + 1))
    _ = coordinator.connected("a")
    _ = coordinator.fired(.join)
    return coordinator
  }

  /// Commits a request and acknowledges it. Returns all actions of the coordinator.
  @discardableResult
  private static func commit(
    _ id: RequestID, as number: UInt64, in coordinator: inout CoordinatorStateMachine
  ) -> [CoordinatorStateMachine.Action] {
    var actions = coordinator.request(id, request)
    let transaction = TransactionID(epoch: 1, sequence: number)
    let move = ParticipantMove(version: number, state: [1])
    for case .record(let record) in coordinator.received(.yes(transaction, move), from: "a") {
      actions += coordinator.recorded(record)
    }
    return actions + coordinator.received(.ack(transaction), from: "a")
  }

  private static func committed(_ id: RequestID, as number: UInt64)
    -> CoordinatorStateMachine.Action
  {
    let transaction = TransactionID(epoch: 1, sequence: number)
    return .reply(id, .atomic(.committed(transaction, versions: ["a": number])))
  }

  @Test("A coordinator keeps every reply that its client has not acknowledged, without limit")
  func awaited() {
    var coordinator = Self.coordinator()
    let callers = (1...1_000).map { RequestID(scope: $0, number: $0 << 24) }
    for (index, id) in callers.enumerated() {
      let actions = Self.commit(id, as: UInt64(index + 1), in: &coordinator)
      #expect(!actions.contains { if case .forget = $0 { true } else { false } })
    }
    for (index, id) in callers.enumerated() {
      #expect(
        coordinator.request(id, Self.request) == [Self.committed(id, as: UInt64(index + 1))])
    }
  }

  @Test(
    "A coordinator refuses a repeated request that it has forgotten, and notifies the client"
  )
  func forgottenClients() {
    var coordinator = Self.coordinator()
    let first = RequestID(client: 1, number: 5)
    var actions = Self.commit(first, as: 1, in: &coordinator)
    #expect(coordinator.request(first, Self.request) == [Self.committed(first, as: 1)])
    for number in UInt64(2)...1_000 {
      actions += coordinator.request(RequestID(client: number, number: 10), Self.impossible)
    }
    let transaction = TransactionID(epoch: 1, sequence: 1)
    #expect(actions.contains(.forget(transaction)))
    #expect(actions.contains(.forgetRequests(through: 10)))
    #expect(coordinator.request(first, Self.request) == [.replyForgotten(first, through: 10)])
    // A higher number is a new request, and the lower one stays forgotten.
    let next = RequestID(client: 1, number: 11)
    _ = coordinator.request(next, Self.impossible)
    #expect(coordinator.request(first, Self.request) == [.replyForgotten(first, through: 10)])

    var journal = CoordinatorJournal()
    journal.epoch = 1
    journal.highestForgottenRequestNumber = 10
    var another = Self.coordinator(journal)
    #expect(another.request(first, Self.request) == [.replyForgotten(first, through: 10)])
    #expect(another.request(next, Self.request) != [.replyForgotten(next, through: 10)])
  }

  @Test("A repeated request is not processed if its client has acknowledged the reply")
  func late() {
    var coordinator = Self.coordinator()
    let id = RequestID(client: 1, number: 5)
    Self.commit(id, as: 1, in: &coordinator)
    coordinator.acknowledge(id.caller, before: 6)
    for number in UInt64(2)...200 {
      _ = coordinator.request(RequestID(client: number, number: 1), Self.impossible)
      coordinator.acknowledge("client.\(number)", before: 2)
    }
    #expect(coordinator.request(id, Self.request) == [.replyForgotten(id, through: 0)])
  }

  @Test("An effect that repeats its events gets the recorded reply to each committed event")
  func effects() {
    var coordinator = Self.coordinator()
    let ids = (0..<200).map { RequestID(scope: 9, number: 7 << 24 | $0) }
    var actions: [CoordinatorStateMachine.Action] = []
    for (index, id) in ids.enumerated() {
      actions += Self.commit(id, as: UInt64(index + 1), in: &coordinator)
    }
    // The last commit of an effect covers the earlier ones.
    #expect(actions.contains(.forget(TransactionID(epoch: 1, sequence: 1))))
    for id in ids {
      let replies = coordinator.request(id, Self.request).replies
      guard case .atomic(.committed)? = replies[id] else {
        Issue.record("event \(id.number & 0xFFFF) is not answered: \(replies)")
        return
      }
    }
    #expect(coordinator.isIdle)
    let next = RequestID(scope: 9, number: 7 << 24 | 200)
    #expect(coordinator.request(next, Self.request).replies.isEmpty)
  }
}
