import PipeRuntime
import Testing

@Suite("The answers that a coordinator keeps")
struct CoordinatorAnswerTests {
  @Test("one that its caller waits for outlives others that are not waited for")
  func awaited() {
    var coordinator = CoordinatorStateMachine(name: "lift", resultCapacity: 64)
    _ = coordinator.start()
    _ = coordinator.recorded(.start(epoch: 1))
    _ = coordinator.connected("a")
    _ = coordinator.fired(.join)
    let waiting = RequestID(caller: "patient", number: 1)
    let request = TransactionRequest(
      composite: "lift", event: "e", participants: ["a"], body: [7], mode: .try)
    let impossible = TransactionRequest(
      composite: "lift", event: "e", participants: ["x"], body: [7], mode: .try)
    _ = coordinator.request(waiting, request)
    let transaction = TransactionID(epoch: 1, sequence: 1)
    let move = ParticipantMove(version: 1, state: [1])
    for case .record(let record) in coordinator.received(.yes(transaction, move), from: "a") {
      _ = coordinator.recorded(record)
    }
    _ = coordinator.received(.ack(transaction), from: "a")
    let committed = CoordinatorStateMachine.Action.reply(
      waiting, .atomic(.committed(transaction, versions: ["a": 1])))
    #expect(coordinator.request(waiting, request) == [committed])

    for number in UInt64(1)...1_000 {
      _ = coordinator.request(RequestID(caller: "busy", number: number), impossible)
      coordinator.acknowledge("busy", before: number)
    }
    #expect(coordinator.request(waiting, request) == [committed])
    // Others that are waited for as well push it out in the end, or what it takes would grow.
    var forgotten: [CoordinatorStateMachine.Action] = []
    for number in UInt64(1)...1_000 {
      forgotten += coordinator.request(RequestID(caller: "gone \(number)", number: 1), impossible)
    }
    let isForgotten = forgotten.contains(.forget(transaction))
    #expect(isForgotten)
  }
}
