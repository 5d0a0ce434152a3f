import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("The records of a coordinator")
struct CoordinatorRecordTests: CoordinatorSuite {
  @Test("A query for a transaction without a record is answered with an abort")
  func presumedAbort() {
    var coordinator = coordinator()
    for message in [
      ParticipantMessage.query(transaction(8)), .yes(transaction(8), Self.move),
    ] {
      #expect(
        coordinator.received(message, from: "a") == [.send(.abort(transaction(8)), to: "a")])
    }
    #expect(coordinator.received(.ack(transaction(8)), from: "a") == [])
    #expect(coordinator.received(.no(transaction(8), .busy), from: "a") == [])
  }

  @Test(
    "After a restart, unacknowledged commits are sent again before new transactions begin")
  func recovery() {
    var journal = CoordinatorJournal()
    journal.epoch = 4
    let moves = ["a": Self.move, "b": Self.move]
    journal.commits = [
      CommitRecord(transaction: transaction(1, epoch: 3), request: id(1), moves: ["c": Self.move]),
      CommitRecord(transaction: transaction(6, epoch: 4), request: id(2), moves: moves),
    ]
    journal.acknowledged = [transaction(1, epoch: 3)]
    var coordinator = CoordinatorStateMachine(name: "lift", journal: journal)
    #expect(
      coordinator.start() == [
        .record(.start(epoch: 5)), .startTimer(.join),
        .startTimer(.resend(transaction(6, epoch: 4))),
      ])
    #expect(coordinator.connected("a").committed == ["a"])
    #expect(coordinator.connected("b").committed == ["b"])
    _ = coordinator.connected("c")
    #expect(
      coordinator.request(id(3), request(["b", "c"])).prepared == [], "not started")
    #expect(
      coordinator.recorded(.start(epoch: 5)).contains(
        .send(.prepare(transaction(1, epoch: 5), event: [7], wantsChange: false), to: "b")))
    #expect(coordinator.isCommitting("b"))
    #expect(
      coordinator.request(id(2), request(["a", "b"]))
        == [
          .reply(
            id(2),
            .atomic(.committed(transaction(6, epoch: 4), versions: ["a": 1, "b": 1])))
        ])
    _ = coordinator.received(.ack(transaction(6, epoch: 4)), from: "a")
    #expect(
      coordinator.received(.ack(transaction(6, epoch: 4)), from: "b").contains(
        .acknowledged(transaction(6, epoch: 4))))
    #expect(!coordinator.isCommitting("b"))
  }

  @Test("A commit releases its locks, and waiting requests are then prepared in order")
  func following() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = coordinator.request(id(2), request(["b", "c"]))
    let actions = commit(transaction(1), ["a", "b"], in: &coordinator)
    let toB = actions.filter { if case .send(_, to: "b") = $0 { true } else { false } }
    #expect(
      toB == [
        .send(.commit(transaction(1)), to: "b"),
        .send(.prepare(transaction(2), event: [7], wantsChange: false), to: "b"),
      ])
    // A reconnected participant gets the commit again, except the earlier one that its yes vote has
    // acknowledged.
    _ = commit(transaction(2), ["b", "c"], in: &coordinator)
    _ = coordinator.disconnected("b")
    #expect(coordinator.connected("b") == [.send(.commit(transaction(2)), to: "b")])
    #expect(coordinator.isCommitting("a"))
    _ = coordinator.received(.ack(transaction(1)), from: "a")
    #expect(coordinator.isCommitting("b"))
    #expect(!coordinator.isCommitting("a"))
    for name in ["b", "c"] { _ = coordinator.received(.ack(transaction(2)), from: name) }
    #expect(coordinator.isIdle)
  }

  @Test("A coordinator begins no transaction before its epoch is durable")
  func epoch() {
    var coordinator = CoordinatorStateMachine(name: "lift")
    #expect(coordinator.start() == [.record(.start(epoch: 1)), .startTimer(.join)])
    for name in ["a", "b"] { _ = coordinator.connected(name) }
    #expect(coordinator.request(id(1), request(["a", "b"])).prepared == [])
    #expect(coordinator.recorded(.start(epoch: 1)).prepared == ["a", "b"])
  }

  @Test("A coordinator keeps a limited number of replies, and never forgets a pending commit")
  func forgetting() {
    var coordinator = coordinator(resultCapacity: 2)
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    var forgotten: [CoordinatorStateMachine.Action] = []
    for number in UInt64(2)...5 { forgotten += coordinator.request(id(number), request(["x"])) }
    #expect(!forgotten.contains(.forget(transaction(1))))
    for name in ["a", "b"] { _ = coordinator.received(.ack(transaction(1)), from: name) }
    coordinator.acknowledge("me", before: 6)
    for number in UInt64(6)...8 { forgotten += coordinator.request(id(number), request(["x"])) }
    #expect(forgotten.contains(.forget(transaction(1))))
    #expect(
      coordinator.ask(id(9), for: transaction(1)) == [
        .reply(id(9), .atomic(.unknown(transaction(1))))
      ])
  }

  @Test("A commit is kept until all participants have reported their steps, even across a restart")
  func keptUntilReported() {
    var coordinator = coordinator(resultCapacity: 2)
    for name in ["a", "b"] { coordinator.noteStepReports(by: name, through: .zero) }
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    for name in ["a", "b"] { _ = coordinator.received(.ack(transaction(1)), from: name) }
    let actions = refusals(2...9, of: &coordinator)
    #expect(!actions.contains(.forget(transaction(1))))
    #expect(coordinator.participants(of: transaction(1)) == ["a", "b"])

    var journal = CoordinatorJournal()
    journal.epoch = 1
    journal.commits = [
      CommitRecord(
        transaction: transaction(1), request: id(1), moves: ["a": Self.move, "b": Self.move])
    ]
    journal.acknowledged = [transaction(1)]
    journal.forgottenThrough = transaction(8)
    var next = self.coordinator(journal, resultCapacity: 2)
    for name in ["a", "b"] { next.noteStepReports(by: name, through: .zero) }
    #expect(!refusals(2...9, of: &next).contains(.forget(transaction(1))))
    next.noteStepReports(by: "a", through: transaction(1))
    #expect(!refusals(10...14, of: &next).contains(.forget(transaction(1))))
    #expect(next.participants(of: transaction(1)) == ["a", "b"])
    next.noteStepReports(by: "b", through: transaction(2))
    #expect(refusals(15...19, of: &next).contains(.forget(transaction(1))))
    #expect(next.participants(of: transaction(1)) == nil)
  }

  /// Sends requests that cannot be accepted, and waits for no reply.
  private func refusals(
    _ numbers: ClosedRange<UInt64>, of coordinator: inout CoordinatorStateMachine
  ) -> [CoordinatorStateMachine.Action] {
    coordinator.acknowledge("me", before: .max)
    return numbers.flatMap { coordinator.request(id($0), request(["x"])) }
  }

  @Test(
    "An uncontended event with k participants takes 4k + 2 messages and 2k + 1 records",
    arguments: 2...6)
  func counts(participants: Int) {
    let names = (0..<participants).map { "p\($0)" }
    let coordinator = SimulatedCoordinator(name: "lift")
    let nodes = Dictionary(
      uniqueKeysWithValues: names.map { ($0, SimulatedParticipant(name: $0)) })
    _ = coordinator.restart()
    _ = coordinator.record()
    for name in names { _ = coordinator.take { $0.connected(name) } }
    var messages = 1
    var inbox = coordinator.take { $0.request(id(1), request(names)) }
    var replies = inbox.replies
    while !inbox.messages.isEmpty || !coordinator.pending.isEmpty {
      messages += inbox.messages.count
      var answers: [(String, ParticipantMessage)] = []
      for (name, message) in inbox.messages {
        answers += nodes[name]!.received(message).map { (name, $0) }
        while !nodes[name]!.pending.isEmpty { answers += nodes[name]!.record().map { (name, $0) } }
      }
      messages += answers.count
      inbox = ([], [])
      for (name, answer) in answers {
        let output = coordinator.take { $0.received(answer, from: name) }
        inbox.messages += output.messages
        replies += output.replies
      }
      while !coordinator.pending.isEmpty {
        let output = coordinator.record()
        inbox.messages += output.messages
        replies += output.replies
      }
    }
    messages += replies.count
    // The count does not include the record of the coordinator's start.
    let records = coordinator.recordCount - 1 + nodes.values.reduce(0) { $0 + $1.recordCount }
    #expect(messages == 4 * participants + 2)
    #expect(records == 2 * participants + 1)
    #expect(coordinator.machine?.isIdle == true)
  }

  @Test("A stopping coordinator aborts undecided transactions and completes decided transactions")
  func stop() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = coordinator.received(.yes(transaction(1), Self.move), from: "a")
    _ = coordinator.request(id(2), request(["b", "c"], .await(nil)))
    _ = coordinator.request(id(3), request(["d", "e"]))
    let committed = commit(transaction(2), ["d", "e"], in: &coordinator)
    #expect(committed.replies[id(3)] != nil)
    let actions = coordinator.stop()
    #expect(actions.replies[id(1)] == .atomic(.unavailable("b")))
    #expect(actions.replies[id(2)] == .atomic(.unavailable("lift")))
    #expect(actions.replies[id(3)] == nil)
    #expect(actions.aborted == ["a", "b"])
    #expect(actions.prepared.isEmpty)
    #expect(coordinator.request(id(4), request(["a", "b"])).prepared.isEmpty)
  }
}
