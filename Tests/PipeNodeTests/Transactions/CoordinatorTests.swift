import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("The coordinator of synchronized events")
struct CoordinatorTests: CoordinatorSuite {
  @Test("Requests get all their locks at once and in order, and disjoint requests run in parallel")
  func locks() {
    var coordinator = coordinator()
    #expect(coordinator.request(id(1), request(["a", "b"])).prepared == ["a", "b"])
    #expect(coordinator.request(id(2), request(["b", "c"])).prepared == [])
    #expect(coordinator.request(id(3), request(["c", "d"])).prepared == [], "would overtake 2")
    #expect(coordinator.request(id(4), request(["e", "a"])).prepared == [])
    let ended = coordinator.received(.no(transaction(1), .busy), from: "a")
    #expect(ended.aborted == ["b"])
    #expect(ended.prepared == ["b", "c", "a", "e"])
    #expect(ended.replies[id(1)] == .atomic(.busy(["a"])))
    #expect(coordinator.locks["b"] == transaction(2))
  }

  @Test("COMMIT is sent and the client is answered only after the commit record is durable")
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
        == .atomic(.committed(transaction(1), versions: ["a": 1, "b": 1])))
    #expect(coordinator.received(.ack(transaction(1)), from: "a") == [])
    #expect(
      coordinator.received(.ack(transaction(1)), from: "b").contains(
        .acknowledged(transaction(1))))
    #expect(coordinator.isIdle)
  }

  @Test("A repeated request is not processed again and gets the same reply")
  func duplicates() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    #expect(coordinator.request(id(1), request(["a", "b"])) == [])
    let first = commit(transaction(1), ["a", "b"], in: &coordinator).replies[id(1)]
    let again = coordinator.request(id(1), request(["a", "b"]))
    #expect(again == [.reply(id(1), first!)])
    #expect(coordinator.ask(id(9), for: transaction(1)) == [.reply(id(9), first!)])
  }

  @Test("A query for an undecided or an unknown transaction gets the reply 'unknown'")
  func asking() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    let unknown = TransactionReply.atomic(.unknown(transaction(1)))
    #expect(coordinator.ask(id(9), for: transaction(1)) == [.reply(id(9), unknown)])
    _ = coordinator.received(.no(transaction(1), .busy), from: "a")
    #expect(
      coordinator.ask(id(9), for: transaction(1)) == [
        .reply(id(9), .atomic(.unavailable("lift")))
      ])
    #expect(
      coordinator.ask(id(9), for: transaction(99)) == [
        .reply(id(9), .atomic(.unknown(transaction(99))))
      ])
  }

  @Test("If a participant is missing or lost, no participant takes the requested event")
  func unavailable() {
    var coordinator = coordinator()
    #expect(
      coordinator.request(id(1), request(["a", "x"])).replies[id(1)]
        == .atomic(.unavailable("x")))
    _ = coordinator.request(id(2), request(["a", "b"]))
    let lost = coordinator.disconnected("b")
    #expect(lost.replies[id(2)] == .atomic(.unavailable("b")))
    #expect(lost.aborted == ["a", "b"])
    _ = coordinator.connected("b")
    _ = coordinator.request(id(3), request(["a", "b"]))
    #expect(
      coordinator.fired(.votes(transaction(2))).replies[id(3)] == .atomic(.unavailable("a")))
    #expect(coordinator.isIdle)
  }

  @Test("A request's evaluation limit extends the coordinator's wait for votes")
  func evaluation() {
    var coordinator = coordinator()
    var slow = request(["a", "b"])
    slow.evaluationLimit = .seconds(3)
    _ = coordinator.request(id(1), slow)
    _ = coordinator.request(id(2), request(["c", "d"]))
    #expect(coordinator.evaluationLimit(of: .votes(transaction(1))) == .seconds(3))
    #expect(coordinator.evaluationLimit(of: .votes(transaction(2))) == .zero)
    #expect(coordinator.evaluationLimit(of: .resend(transaction(1))) == .zero)
    #expect(coordinator.evaluationLimit(of: .votes(transaction(3))) == .zero)
  }

  @Test("A waiting request is retried until its deadline, each time a refusing participant changes")
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
    let blocker = BlockingParticipant(
      participant: "b", state: "off", version: 0, reason: .noTransition)
    #expect(reply == .atomic(.refused([blocker])))
    #expect(coordinator.isIdle)
  }

  @Test("A waiting request is retried when an absent participant connects, or after a lost message")
  func waitingForParticipants() {
    var coordinator = coordinator()
    #expect(coordinator.request(id(1), request(["a", "x"], .await(nil))).replies == [:])
    #expect(coordinator.connected("x").prepared == ["a", "x"])
    _ = coordinator.received(.no(transaction(1), .busy), from: "x")
    #expect(coordinator.fired(.retry(id(1))).prepared == ["a", "x"])
    #expect(coordinator.fired(.retry(id(1))) == [])
  }

  @Test("A request that waits for locks gets the reply 'busy' after its timeout")
  func busy() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    #expect(coordinator.request(id(2), request(["b", "c"])) == [.startTimer(.locks(id(2)))])
    #expect(
      coordinator.fired(.locks(id(2))).replies[id(2)] == .atomic(.busy(["b"])))
    _ = coordinator.request(id(3), request(["b", "c"], .await(.seconds(1))))
    #expect(
      coordinator.fired(.deadline(id(3), .seconds(1))).replies[id(3)] == .atomic(.busy(["b"])))
  }

  @Test("Each commit restarts the timeout of the requests that wait for locks")
  func movingQueue() {
    var coordinator = coordinator()
    for number in UInt64(1)...3 { _ = coordinator.request(id(number), request(["a", "b"])) }
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    #expect(coordinator.fired(.locks(id(3))) == [.startTimer(.locks(id(3)))])
    #expect(
      coordinator.fired(.locks(id(3))).replies[id(3)] == .atomic(.busy(["a", "b"])),
      "nothing was committed since")
  }

  @Test("A vote of 'yes' acknowledges earlier commits for its sender, and for no other participant")
  func yesAcknowledges() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    _ = coordinator.request(id(2), request(["a", "b"]))
    #expect(coordinator.received(.yes(transaction(2), Self.move), from: "a") == [])
    #expect(!coordinator.isCommitting("c") && coordinator.isCommitting("b"))
    // A participant that has not acknowledged the commit gets it again.
    #expect(coordinator.fired(.resend(transaction(1))).committed == ["b"])
    #expect(
      coordinator.received(.yes(transaction(2), Self.move), from: "b").contains(
        .acknowledged(transaction(1))))
    #expect(!coordinator.isCommitting("a") && !coordinator.isCommitting("b"))
  }

  @Test("A vote of 'no' acknowledges no earlier commit, because its sender may not have the commit")
  func noAcknowledgesNothing() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    _ = coordinator.request(id(2), request(["a", "c"]))
    _ = coordinator.received(.no(transaction(2), .busy), from: "a")
    #expect(coordinator.isCommitting("a"))
    #expect(coordinator.connected("a").committed == ["a"])
  }

  @Test("A request that has been overtaken for a long time blocks other requests for a while")
  func fairness() {
    var coordinator = coordinator()
    let refusal = ParticipantRefusal.refused(.noTransition, version: 0, state: Array("0".utf8))
    _ = coordinator.request(id(1), request(["a", "b", "c"], .await(nil)))
    _ = coordinator.received(.no(transaction(1), refusal), from: "a")
    var actions: [CoordinatorStateMachine.Action] = []
    for number in UInt64(2)...3 {
      _ = coordinator.request(id(number), request(["b", "c"]))
      actions += commit(transaction(number), ["b", "c"], in: &coordinator)
      for name in ["b", "c"] {
        _ = coordinator.received(.ack(transaction(number)), from: name)
      }
    }
    #expect(actions.contains(.startTimer(.priorityTimeout(id(1)))))
    #expect(coordinator.request(id(4), request(["b", "c"])).prepared == [])
    #expect(
      coordinator.request(id(5), request(["b", "c"], event: "other")).prepared == ["b", "c"],
      "what it waits for may need another event")
    _ = coordinator.received(.no(transaction(4), .busy), from: "b")
    #expect(coordinator.fired(.priorityTimeout(id(1))).prepared == ["b", "c"])
  }

  @Test(
    "The reply to a broadcast has each participant's result, even if a participant does not answer")
  func broadcast() {
    var coordinator = coordinator()
    let actions = coordinator.request(id(1), request(["a", "b", "c", "x"], .broadcast))
    #expect(actions.contains(.send(.deliver(transaction(1), event: [7]), to: "a")))
    _ = coordinator.received(.delivered(transaction(1), .success(5)), from: "a")
    _ = coordinator.received(.delivered(transaction(1), .failure(.busy)), from: "b")
    let end = coordinator.disconnected("c")
    #expect(
      end.replies[id(1)]
        == .broadcast([
          "a": .accepted(version: 5), "b": .busy, "c": .unknown, "x": .unavailable,
        ]))
    #expect(coordinator.isIdle)
  }

  @Test("A withdrawn request is dropped, unless its event is in progress")
  func withdraw() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"], .await(nil)))
    _ = coordinator.request(id(2), request(["b", "c"], .await(nil)))
    #expect(coordinator.withdraw(id(1)).isEmpty)
    #expect(coordinator.withdraw(id(2)).replies[id(2)] == .atomic(.unavailable("lift")))
    #expect(coordinator.withdraw(id(3)).isEmpty)
    // The attempt in progress is the last one.
    let actions = coordinator.received(
      .no(transaction(1), .refused(.guard, version: 1, state: [])), from: "b")
    #expect(actions.replies[id(1)] != nil)
    #expect(actions.prepared.isEmpty)
    #expect(coordinator.isIdle)
  }

  @Test("A refused request can be tried again with the same number, but a committed request cannot")
  func allowRetry() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = coordinator.received(.no(transaction(1), .busy), from: "a")
    coordinator.allowRetry(id(1))
    #expect(coordinator.request(id(1), request(["a", "b"])).prepared == ["a", "b"])
    let committed = commit(transaction(2), ["a", "b"], in: &coordinator)
    coordinator.allowRetry(id(1))
    let again = coordinator.request(id(1), request(["a", "b"]))
    #expect(again.prepared.isEmpty)
    #expect(again.replies[id(1)] == committed.replies[id(1)])
  }
}
