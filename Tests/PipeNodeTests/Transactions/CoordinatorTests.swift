import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("A coordinator")
struct CoordinatorTests: CoordinatorSuite {
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
    #expect(ended.replies[id(1)] == .atomic(.busy(["a"])))
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
        == .atomic(.committed(transaction(1), versions: ["a": 1, "b": 1])))
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
    #expect(coordinator.ask(id(9), for: transaction(1)) == [.reply(id(9), first!)])
  }

  @Test("asking for a transaction tells what is not decided yet, or not known")
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

  @Test("a participant that is not connected, or that is lost, makes nothing happen")
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

  @Test("participants that take their time have that beside the time for their answers")
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
    #expect(reply == .atomic(.refused([withheld])))
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
      coordinator.fired(.locks(id(2))).replies[id(2)] == .atomic(.busy(["b"])))
    _ = coordinator.request(id(3), request(["b", "c"], .await(.seconds(1))))
    #expect(
      coordinator.fired(.deadline(id(3), .seconds(1))).replies[id(3)] == .atomic(.busy(["b"])))
  }

  @Test("a request in a queue that moves on is not busy: its time begins anew with each commit")
  func movingQueue() {
    var coordinator = coordinator()
    for number in UInt64(1)...3 { _ = coordinator.request(id(number), request(["a", "b"])) }
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    #expect(coordinator.fired(.locks(id(3))) == [.startTimer(.locks(id(3)))])
    #expect(
      coordinator.fired(.locks(id(3))).replies[id(3)] == .atomic(.busy(["a", "b"])),
      "nothing was committed since")
  }

  @Test("a yes acknowledges the commits before it, of its participant alone")
  func yesAcknowledges() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    _ = coordinator.request(id(2), request(["a", "b"]))
    #expect(coordinator.received(.yes(transaction(2), Self.move), from: "a") == [])
    #expect(!coordinator.isCommitting("c") && coordinator.isCommitting("b"))
    // Who has not said so is told again.
    #expect(coordinator.fired(.resend(transaction(1))).committed == ["b"])
    #expect(
      coordinator.received(.yes(transaction(2), Self.move), from: "b").contains(
        .acknowledged(transaction(1))))
    #expect(!coordinator.isCommitting("a") && !coordinator.isCommitting("b"))
  }

  @Test("a no acknowledges nothing: who is busy may not have got the commit")
  func noAcknowledgesNothing() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"]))
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    _ = coordinator.request(id(2), request(["a", "c"]))
    _ = coordinator.received(.no(transaction(2), .busy), from: "a")
    #expect(coordinator.isCommitting("a"))
    #expect(coordinator.connected("a").committed == ["a"])
  }

  @Test("a request that others overtake keeps them back in the end, for a while")
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
    _ = coordinator.received(.delivered(transaction(1), .success(5)), from: "a")
    _ = coordinator.received(.delivered(transaction(1), .failure(.busy)), from: "b")
    let end = coordinator.disconnected("c")
    #expect(
      end.replies[id(1)]
        == .broadcast([
          "a": .moved(version: 5), "b": .busy, "c": .unknown, "x": .unavailable,
        ]))
    #expect(coordinator.isIdle)
  }

  @Test("a caller that waits no longer is not asked for, unless its event is under way")
  func withdraw() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request(["a", "b"], .await(nil)))
    _ = coordinator.request(id(2), request(["b", "c"], .await(nil)))
    #expect(coordinator.withdraw(id(1)).isEmpty)
    #expect(coordinator.withdraw(id(2)).replies[id(2)] == .atomic(.unavailable("lift")))
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
