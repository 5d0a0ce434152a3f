import PipeMachines
import PipeNode
import PipeWire

/// The common setup of coordinator tests: participants `a` to `e`, and requests for their events.
protocol CoordinatorSuite {}

extension CoordinatorSuite {
  static var move: ParticipantMove {
    ParticipantMove(version: 1, state: Array("\"on\"".utf8))
  }

  func coordinator(
    _ journal: CoordinatorJournal = CoordinatorJournal(), resultCapacity: Int = 4096
  ) -> CoordinatorStateMachine {
    var coordinator = CoordinatorStateMachine(
      name: "lift", journal: journal, resultCapacity: resultCapacity)
    _ = coordinator.start()
    _ = coordinator.recorded(.start(epoch: coordinator.epoch))
    for name in ["a", "b", "c", "d", "e"] { _ = coordinator.connected(name) }
    _ = coordinator.fired(.join)
    return coordinator
  }

  func id(_ number: UInt64) -> RequestID { RequestID(caller: "me", number: number) }

  func request(
    _ participants: [String], _ mode: TransactionMode = .try, event: String = "e"
  ) -> TransactionRequest {
    TransactionRequest(
      composite: "lift", event: event, participants: participants, body: [7], mode: mode)
  }

  func transaction(_ sequence: UInt64, epoch: UInt64 = 1) -> TransactionID {
    TransactionID(epoch: epoch, sequence: sequence)
  }

  /// Makes every participant vote yes, and makes the commit durable.
  func commit(
    _ transaction: TransactionID, _ participants: [String],
    in coordinator: inout CoordinatorStateMachine
  ) -> [CoordinatorStateMachine.Action] {
    var actions: [CoordinatorStateMachine.Action] = []
    for name in participants {
      actions += coordinator.received(.yes(transaction, Self.move), from: name)
    }
    for case .record(let record) in actions { actions += coordinator.recorded(record) }
    return actions
  }
}

extension [CoordinatorStateMachine.Action] {
  /// The participants that are asked to prepare, in order.
  var prepared: [String] {
    compactMap { if case .send(.prepare, let name) = $0 { name } else { nil } }
  }

  var committed: [String] {
    compactMap { if case .send(.commit, let name) = $0 { name } else { nil } }
  }

  var aborted: [String] {
    compactMap { if case .send(.abort, let name) = $0 { name } else { nil } }
  }

  var replies: [RequestID: TransactionReply] {
    var replies: [RequestID: TransactionReply] = [:]
    for case .reply(let id, let reply) in self { replies[id] = reply }
    return replies
  }
}
