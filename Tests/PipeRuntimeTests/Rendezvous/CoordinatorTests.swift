import PipeRuntime
import Testing

@Suite("A coordinator")
struct CoordinatorTests {
  private typealias Action = RendezvousCoordinator.Action

  private static let move = ParticipantMove(version: 1, state: Array("\"on\"".utf8))

  private func coordinator(
    _ journal: CoordinatorJournal = CoordinatorJournal(), resultCapacity: Int = 4096
  ) -> RendezvousCoordinator {
    var coordinator = RendezvousCoordinator(
      name: "lift", journal: journal, resultCapacity: resultCapacity)
    _ = coordinator.start()
    _ = coordinator.recorded(.start(epoch: coordinator.epoch))
    for name in ["a", "b", "c", "d", "e"] { _ = coordinator.connected(name) }
    _ = coordinator.fired(.join)
    return coordinator
  }

  private func id(_ number: UInt64) -> RequestID { RequestID(caller: "me", number: number) }

  private func request(
    _ participants: [String], _ mode: RendezvousMode = .try, event: String = "e"
  ) -> RendezvousRequest {
    RendezvousRequest(
      composite: "lift", event: event, participants: participants, body: [7], mode: mode)
  }

  private func transaction(_ sequence: UInt64, epoch: UInt64 = 1) -> TransactionID {
    TransactionID(epoch: epoch, sequence: sequence)
  }

  /// Has every participant say yes, and makes the commit durable.
  private func commit(
    _ transaction: TransactionID, _ participants: [String],
    in coordinator: inout RendezvousCoordinator
  ) -> [Action] {
    var actions: [Action] = []
    for name in participants {
      actions += coordinator.received(.yes(transaction, Self.move), from: name)
    }
    for case .record(let record) in actions { actions += coordinator.recorded(record) }
    return actions
  }

  @Test("grants all locks at once, to disjoint requests at the same time, in the order they came")
  func locks() {
    var coordinator = coordinator()
    #expect(coordinator.request(id(1), request(["a", "b"])).prepared == ["a", "b"])
    #expect(coordinator.request(id(2), request(["b", "c"])).prepared == [])
    #expect(coordinator.request(id(3), request(["c", "d"])).prepared == [], "would overtake 2")
    #expect(coordinator.request(id(4), request(["e", "a"])).prepared == [])
    let ended = coordinator.received(.no(transaction(1), .busy), from: "a")
    #expect(ended.aborted == ["b"])
    #expect(ended.prepared == ["b", "c", "a", "e"])
    #expect(ended.replies[id(1)] == .rendezvous(.busy(["a"])))
    #expect(coordinator.locks["b"] == transaction(2))
  }

  @Test("COMMIT is sent when its record is durable, not before, and then the caller is told")
  func commitPoint() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    #expect(coordinator.received(.yes(transaction(1), Self.move), from: "a") == [])
    let voted = coordinator.received(.yes(transaction(1), Self.move), from: "b")
    #expect(voted.committed == [])
    #expect(voted.replies == [:])
    let record = CoordinatorRecord.commit(
      CommitRecord(
        transaction: transaction(1), request: id(1), moves: ["a": Self.move, "b": Self.move]))
    #expect(voted.contains(.record(record)))
    let recorded = coordinator.recorded(record)
    #expect(recorded.committed == ["a", "b"])
    #expect(
      recorded.replies[id(1)]
        == .rendezvous(.committed(transaction(1), versions: ["a": 1, "b": 1])))
    #expect(coordinator.received(.ack(transaction(1)), from: "a") == [])
    #expect(
      coordinator.received(.ack(transaction(1)), from: "b").contains(
        .acknowledged(transaction(1))))
    #expect(coordinator.isIdle)
  }

  @Test("a request sent again is not taken again, and gets the same answer")
  func duplicates() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    #expect(coordinator.request(id(1), request(["a", "b"])) == [])
    let first = commit(transaction(1), ["a", "b"], in: &coordinator).replies[id(1)]
    let again = coordinator.request(id(1), request(["a", "b"]))
    #expect(again == [.reply(id(1), first!)])
    #expect(coordinator.ask(id(1)) == again)
    #expect(coordinator.ask(id(9), for: transaction(1)) == [.reply(id(9), first!)])
  }

  @Test("asking tells what is not decided yet, and settles what never came")
  func asking() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    let unknown = RendezvousReply.rendezvous(.unknown(transaction(1)))
    #expect(coordinator.ask(id(1)) == [.reply(id(1), unknown)])
    #expect(coordinator.ask(id(9), for: transaction(1)) == [.reply(id(9), unknown)])
    let never = RendezvousReply.rendezvous(.unavailable("lift"))
    #expect(coordinator.ask(id(2)) == [.reply(id(2), never)])
    #expect(coordinator.request(id(2), request(["c", "d"])) == [.reply(id(2), never)])
    _ = coordinator.received(.no(transaction(1), .busy), from: "a")
    #expect(
      coordinator.ask(id(9), for: transaction(1)) == [
        .reply(id(9), .rendezvous(.unavailable("lift")))
      ])
    #expect(
      coordinator.ask(id(9), for: transaction(99)) == [
        .reply(id(9), .rendezvous(.unknown(transaction(99))))
      ])
  }

  @Test("a participant that is not connected, or that is lost, makes nothing happen")
  func unavailable() {
    var coordinator = coordinator()
    #expect(
      coordinator.request(id(1), request(["a", "x"])).replies[id(1)]
        == .rendezvous(.unavailable("x")))
    _ = coordinator.request(id(2), request(["a", "b"]))
    let lost = coordinator.disconnected("b")
    #expect(lost.replies[id(2)] == .rendezvous(.unavailable("b")))
    #expect(lost.aborted == ["a", "b"])
    _ = coordinator.connected("b")
    _ = coordinator.request(id(3), request(["a", "b"]))
    #expect(
      coordinator.fired(.votes(transaction(2))).replies[id(3)] == .rendezvous(.unavailable("a")))
    #expect(coordinator.isIdle)
  }

  @Test("who asks about a transaction without a record is told that it was aborted")
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
    "after a restart the commits that were not acknowledged are sent again, before anything new")
  func recovery() {
    var journal = CoordinatorJournal()
    journal.epoch = 4
    let moves = ["a": Self.move, "b": Self.move]
    journal.commits = [
      CommitRecord(transaction: transaction(1, epoch: 3), request: id(1), moves: ["c": Self.move]),
      CommitRecord(transaction: transaction(6, epoch: 4), request: id(2), moves: moves),
    ]
    journal.acknowledged = [transaction(1, epoch: 3)]
    var coordinator = RendezvousCoordinator(name: "lift", journal: journal)
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
            .rendezvous(.committed(transaction(6, epoch: 4), versions: ["a": 1, "b": 1])))
        ])
    _ = coordinator.received(.ack(transaction(6, epoch: 4)), from: "a")
    #expect(
      coordinator.received(.ack(transaction(6, epoch: 4)), from: "b").contains(
        .acknowledged(transaction(6, epoch: 4))))
    #expect(!coordinator.isCommitting("b"))
  }

  @Test("a commit frees the locks: who waits for them is asked behind it, in order")
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
    // Both commits are told again to who has come anew, in their order.
    _ = commit(transaction(2), ["b", "c"], in: &coordinator)
    _ = coordinator.disconnected("b")
    let again = coordinator.connected("b")
    #expect(
      again == [
        .send(.commit(transaction(1)), to: "b"), .send(.commit(transaction(2)), to: "b"),
      ])
    for name in ["a", "b"] { _ = coordinator.received(.ack(transaction(1)), from: name) }
    #expect(coordinator.isCommitting("b"))
    #expect(!coordinator.isCommitting("a"))
    for name in ["b", "c"] { _ = coordinator.received(.ack(transaction(2)), from: name) }
    #expect(coordinator.isIdle)
  }

  @Test("begins nothing before its epoch is durable")
  func epoch() {
    var coordinator = RendezvousCoordinator(name: "lift")
    #expect(coordinator.start() == [.record(.start(epoch: 1)), .startTimer(.join)])
    for name in ["a", "b"] { _ = coordinator.connected(name) }
    #expect(coordinator.request(id(1), request(["a", "b"])).prepared == [])
    #expect(coordinator.recorded(.start(epoch: 1)).prepared == ["a", "b"])
  }

  @Test("a waiting request is tried again when who refused it has changed, up to its deadline")
  func waiting() {
    var coordinator = coordinator()
    let refusal = ParticipantRefusal.refused(
      .noTransition, version: 0, state: Array("\"off\"".utf8))
    let began = coordinator.request(id(1), request(["a", "b"], .await(.seconds(3))))
    #expect(began.contains(.startTimer(.deadline(id(1), .seconds(3)))))
    let refused = coordinator.received(.no(transaction(1), refusal), from: "b")
    #expect(refused.replies == [:])
    #expect(refused.contains(.startTimer(.retry(id(1)))))
    #expect(coordinator.received(.changed, from: "a").prepared == [])
    #expect(coordinator.received(.changed, from: "b").prepared == ["a", "b"])
    #expect(coordinator.fired(.deadline(id(1), .seconds(3))).replies == [:], "it is under way")
    let reply = coordinator.received(.no(transaction(2), refusal), from: "b").replies[id(1)]
    let withheld = Withholding(
      participant: "b", state: "off", version: 0, reason: .noTransition)
    #expect(reply == .rendezvous(.refused([withheld])))
    #expect(coordinator.isIdle)
  }

  @Test("a waiting request waits for a participant that is away, and for a lost message")
  func waitingForParticipants() {
    var coordinator = coordinator()
    #expect(coordinator.request(id(1), request(["a", "x"], .await(nil))).replies == [:])
    #expect(coordinator.connected("x").prepared == ["a", "x"])
    _ = coordinator.received(.no(transaction(1), .busy), from: "x")
    #expect(coordinator.fired(.retry(id(1))).prepared == ["a", "x"])
    #expect(coordinator.fired(.retry(id(1))) == [])
  }

  @Test("a request that has to wait for its locks is busy when its time is up")
  func busy() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    #expect(coordinator.request(id(2), request(["b", "c"])) == [.startTimer(.locks(id(2)))])
    #expect(
      coordinator.fired(.locks(id(2))).replies[id(2)] == .rendezvous(.busy(["b"])))
    _ = coordinator.request(id(3), request(["b", "c"], .await(.seconds(1))))
    #expect(
      coordinator.fired(.deadline(id(3), .seconds(1))).replies[id(3)] == .rendezvous(.busy(["b"])))
  }

  @Test("a request that others overtake keeps them back in the end, for a while")
  func fairness() {
    var coordinator = coordinator()
    let refusal = ParticipantRefusal.refused(.noTransition, version: 0, state: Array("0".utf8))
    _ = coordinator.request(id(1), request(["a", "b", "c"], .await(nil)))
    _ = coordinator.received(.no(transaction(1), refusal), from: "a")
    var actions: [Action] = []
    for number in UInt64(2)...3 {
      _ = coordinator.request(id(number), request(["b", "c"]))
      actions += commit(transaction(number), ["b", "c"], in: &coordinator)
      for name in ["b", "c"] {
        _ = coordinator.received(.ack(transaction(number)), from: name)
      }
    }
    #expect(actions.contains(.startTimer(.patience(id(1)))))
    #expect(coordinator.request(id(4), request(["b", "c"])).prepared == [])
    #expect(
      coordinator.request(id(5), request(["b", "c"], event: "other")).prepared == ["b", "c"],
      "what it waits for may need another event")
    _ = coordinator.received(.no(transaction(4), .busy), from: "b")
    #expect(coordinator.fired(.patience(id(1))).prepared == ["b", "c"])
  }

  @Test("a broadcast is answered by each, also by those that do not answer")
  func broadcast() {
    var coordinator = coordinator()
    let actions = coordinator.request(id(1), request(["a", "b", "c", "x"], .broadcast))
    #expect(actions.contains(.send(.deliver(transaction(1), event: [7]), to: "a")))
    _ = coordinator.received(.delivered(transaction(1), .moved(version: 5)), from: "a")
    _ = coordinator.received(.delivered(transaction(1), .refused(.busy)), from: "b")
    let end = coordinator.disconnected("c")
    #expect(
      end.replies[id(1)]
        == .broadcast([
          "a": .moved(version: 5), "b": .busy, "c": .unknown, "x": .unavailable,
        ]))
    #expect(coordinator.isIdle)
  }

  @Test("keeps so many answers, never forgets a commit that is under way, and says what it forgot")
  func forgetting() {
    var coordinator = coordinator(resultCapacity: 2)
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    var forgotten: [Action] = []
    for number in UInt64(2)...5 { forgotten += coordinator.ask(id(number)) }
    #expect(!forgotten.contains(.forget(transaction(1))))
    for name in ["a", "b"] { _ = coordinator.received(.ack(transaction(1)), from: name) }
    coordinator.settle("me", before: 6)
    for number in UInt64(6)...8 { forgotten += coordinator.ask(id(number)) }
    #expect(forgotten.contains(.forget(transaction(1))))
    #expect(
      coordinator.ask(id(9), for: transaction(1)) == [
        .reply(id(9), .rendezvous(.unknown(transaction(1))))
      ])
  }

  @Test("a good case takes 4k + 2 messages and 2k + 1 records", arguments: 2...6)
  func counts(participants: Int) {
    let names = (0..<participants).map { "p\($0)" }
    var coordinator = SimulatedCoordinator(name: "lift")
    var nodes = Dictionary(
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
    // Without the record of the start.
    let records = coordinator.recordCount - 1 + nodes.values.reduce(0) { $0 + $1.recordCount }
    #expect(messages == 4 * participants + 2)
    #expect(records == 2 * participants + 1)
    #expect(coordinator.machine?.isIdle == true)
  }

  @Test("a coordinator that is to end gives up what is not decided, and keeps what is")
  func stop() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = coordinator.received(.yes(transaction(1), Self.move), from: "a")
    _ = coordinator.request(id(2), request(["b", "c"], .await(nil)))
    _ = coordinator.request(id(3), request(["d", "e"]))
    let committed = commit(transaction(2), ["d", "e"], in: &coordinator)
    #expect(committed.replies[id(3)] != nil)
    let actions = coordinator.stop()
    #expect(actions.replies[id(1)] == .rendezvous(.unavailable("b")))
    #expect(actions.replies[id(2)] == .rendezvous(.unavailable("lift")))
    #expect(actions.replies[id(3)] == nil)
    #expect(actions.aborted == ["a", "b"])
    #expect(actions.prepared.isEmpty)
    #expect(coordinator.request(id(4), request(["a", "b"])).prepared.isEmpty)
  }

  @Test("a caller that waits no longer is not asked for, unless its event is under way")
  func withdraw() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"], .await(nil)))
    _ = coordinator.request(id(2), request(["b", "c"], .await(nil)))
    #expect(coordinator.withdraw(id(1)).isEmpty)
    #expect(coordinator.withdraw(id(2)).replies[id(2)] == .rendezvous(.unavailable("lift")))
    #expect(coordinator.withdraw(id(3)).isEmpty)
    // What is under way is the last try.
    let actions = coordinator.received(
      .no(transaction(1), .refused(.guard, version: 1, state: [])), from: "b")
    #expect(actions.replies[id(1)] != nil)
    #expect(actions.prepared.isEmpty)
    #expect(coordinator.isIdle)
  }

  @Test("a request that moved none can be asked anew under its number, one that was committed not")
  func renew() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = coordinator.received(.no(transaction(1), .busy), from: "a")
    coordinator.renew(id(1))
    #expect(coordinator.request(id(1), request(["a", "b"])).prepared == ["a", "b"])
    let committed = commit(transaction(2), ["a", "b"], in: &coordinator)
    coordinator.renew(id(1))
    let again = coordinator.request(id(1), request(["a", "b"]))
    #expect(again.prepared.isEmpty)
    #expect(again.replies[id(1)] == committed.replies[id(1)])
  }
}

extension [RendezvousCoordinator.Action] {
  /// Who is asked to prepare, in order.
  fileprivate var prepared: [String] {
    compactMap { if case .send(.prepare, let name) = $0 { name } else { nil } }
  }

  fileprivate var committed: [String] {
    compactMap { if case .send(.commit, let name) = $0 { name } else { nil } }
  }

  fileprivate var aborted: [String] {
    compactMap { if case .send(.abort, let name) = $0 { name } else { nil } }
  }

  fileprivate var replies: [RequestID: RendezvousReply] {
    var replies: [RequestID: RendezvousReply] = [:]
    for case .reply(let id, let reply) in self { replies[id] = reply }
    return replies
  }
}
