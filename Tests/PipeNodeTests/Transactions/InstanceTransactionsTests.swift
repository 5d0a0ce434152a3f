import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("Transactions of instances at a participant")
struct InstanceTransactionsTests {
  private static let move = ParticipantMove(version: 1, state: Array("\"on\"".utf8))

  private static func key(_ text: String) throws -> InstanceKey { try InstanceKey(text) }

  private static func at(_ sequence: UInt64, epoch: UInt64 = 1) -> TransactionID {
    TransactionID(epoch: epoch, sequence: sequence)
  }

  private static func step(_ transaction: TransactionID) -> PreparedStep {
    PreparedStep(transaction: transaction, event: [7], move: move)
  }

  /// Prepares an instance, and makes the record durable.
  private static func prepare(
    _ key: InstanceKey, as transaction: TransactionID,
    in transactions: inout InstanceTransactions
  ) -> [InstanceTransactions.Action] {
    let actions = transactions.prepare(
      transaction, of: key, event: [7], wantsChange: false, evaluate: { _ in .moves(move) })
    guard !actions.isEmpty else { return [] }
    #expect(actions == [.record(.prepared(step(transaction)))])
    return transactions.recorded(.prepared(step(transaction)), of: key)
  }

  /// Commits a transaction of an instance, and makes the record durable.
  private static func commit(
    _ key: InstanceKey, as transaction: TransactionID,
    in transactions: inout InstanceTransactions
  ) -> [InstanceTransactions.Action] {
    let actions = transactions.commit(transaction)
    guard actions.contains(.record(.step(step(transaction)))) else { return actions }
    return actions + transactions.recorded(.step(step(transaction)), of: key)
  }

  @Test("While an instance is prepared, other instances take part in transactions and take events")
  func concurrent() throws {
    let (a, b) = (try Self.key("a"), try Self.key("b"))
    var transactions = InstanceTransactions()
    #expect(
      Self.prepare(a, as: Self.at(1), in: &transactions)
        == [.send(.yes(Self.at(1), Self.move)), .startQueryTimer])
    #expect(!transactions.acceptsInputs(a))
    #expect(transactions.acceptsInputs(b))
    #expect(
      Self.prepare(b, as: Self.at(2), in: &transactions)
        == [.send(.yes(Self.at(2), Self.move)), .startQueryTimer])
    #expect(transactions.prepared == [Self.at(1), Self.at(2)])
    #expect(
      Self.commit(b, as: Self.at(2), in: &transactions).contains(.enter(Self.step(Self.at(2)))))
    #expect(transactions.lockedKeys == [a])
    // The earlier transaction is still open, although a later one is applied.
    #expect(transactions.lastApplied == Self.at(2))
    #expect(
      Self.commit(a, as: Self.at(1), in: &transactions).contains(.enter(Self.step(Self.at(1)))))
    #expect(transactions.lockedKeys.isEmpty)
    #expect(transactions.lastApplied == Self.at(2) && transactions.lastCommitted == Self.at(2))
  }

  @Test("A second transaction of a prepared instance is refused as busy")
  func busy() throws {
    let a = try Self.key("a")
    var transactions = InstanceTransactions()
    _ = Self.prepare(a, as: Self.at(1), in: &transactions)
    let actions = transactions.prepare(
      Self.at(2), of: a, event: [8], wantsChange: true, evaluate: { _ in .moves(Self.move) })
    #expect(actions == [.send(.no(Self.at(2), .busy))])
    #expect(
      Self.commit(a, as: Self.at(1), in: &transactions)
        == [
          .stopQueryTimer, .enter(Self.step(Self.at(1))), .record(.step(Self.step(Self.at(1)))),
          .send(.ack(Self.at(1))), .send(.changed), .unfreeze,
        ])
  }

  @Test("A restarted node is prepared for an instance even if a later transaction is applied")
  func restored() throws {
    let (a, b) = (try Self.key("a"), try Self.key("b"))
    var transactions = InstanceTransactions(
      prepared: [(a, Self.step(Self.at(1)), 0), (b, Self.step(Self.at(3)), 1)],
      applied: Self.at(2))
    // The instance `b` has taken another step since, so its transaction has ended.
    #expect(transactions.lockedKeys == [a])
    #expect(transactions.watermark == Self.at(3))
    #expect(
      transactions.connected(a) == [.send(.query(Self.at(1))), .startQueryTimer])
    #expect(
      Self.commit(a, as: Self.at(1), in: &transactions).contains(.enter(Self.step(Self.at(1)))))
    #expect(transactions.lockedKeys.isEmpty)
  }

  @Test("A repeated commit is acknowledged and not applied again, even if its instance is gone")
  func repeated() throws {
    let a = try Self.key("a")
    var transactions = InstanceTransactions()
    _ = Self.prepare(a, as: Self.at(1), in: &transactions)
    _ = Self.commit(a, as: Self.at(1), in: &transactions)
    #expect(transactions.commit(Self.at(1)) == [.send(.ack(Self.at(1)))])
    var restarted = InstanceTransactions(applied: Self.at(1))
    #expect(restarted.commit(Self.at(1)) == [.send(.ack(Self.at(1)))])
    // A commit that the node has never prepared is reported.
    #expect(restarted.commit(Self.at(2)) == [.report(.commitOfUnknown(Self.at(2)))])
  }

  @Test("Every instance ignores a PREPARE whose number does not exceed the highest known number")
  func notNew() throws {
    let (a, b) = (try Self.key("a"), try Self.key("b"))
    var transactions = InstanceTransactions()
    _ = Self.prepare(a, as: Self.at(5), in: &transactions)
    _ = Self.commit(a, as: Self.at(5), in: &transactions)
    for key in [a, b] {
      #expect(Self.prepare(key, as: Self.at(5), in: &transactions).isEmpty)
      #expect(Self.prepare(key, as: Self.at(4), in: &transactions).isEmpty)
    }
    #expect(transactions.abort(Self.at(9)).isEmpty)
    #expect(Self.prepare(a, as: Self.at(8), in: &transactions).isEmpty)
    #expect(!Self.prepare(a, as: Self.at(1, epoch: 2), in: &transactions).isEmpty)
  }

  @Test("An aborted instance is unlocked, and its transaction is forgotten")
  func aborted() throws {
    let a = try Self.key("a")
    var transactions = InstanceTransactions()
    _ = Self.prepare(a, as: Self.at(1), in: &transactions)
    #expect(transactions.abort(Self.at(1)) == [.stopQueryTimer, .rollBack, .unfreeze])
    #expect(transactions.lockedKeys.isEmpty && transactions.prepared.isEmpty)
    #expect(transactions.key(of: Self.at(1)) == nil)
    #expect(transactions[a] == nil)
  }

  @Test("If the coordinator waits on a refusal, the participant reports its instance's next step")
  func notification() throws {
    let (a, b) = (try Self.key("a"), try Self.key("b"))
    var transactions = InstanceTransactions()
    let refusal = ParticipantRefusal.refused(.noTransition, version: 1, state: [])
    let actions = transactions.prepare(
      Self.at(1), of: a, event: [7], wantsChange: true,
      evaluate: { _ throws(ParticipantRefusal) in throw refusal })
    #expect(actions == [.send(.no(Self.at(1), refusal))])
    #expect(transactions.isNotificationDue(a) && !transactions.isNotificationDue(b))
    #expect(transactions.stepped(b).isEmpty)
    #expect(transactions.stepped(a) == [.send(.changed)])
    #expect(!transactions.isNotificationDue(a))
  }
}

@Suite("Transactions of instances at a coordinator")
struct CoordinatorInstanceTests: CoordinatorSuite {
  private func request(_ key: String, _ mode: TransactionMode = .try) -> TransactionRequest {
    request(["a[\(key)]", "b[\(key)]"], mode)
  }

  @Test("Requests of different keys run at the same time, and requests of one key one by one")
  func concurrent() {
    var coordinator = coordinator()
    #expect(coordinator.request(id(1), request("x")).prepared == ["a[x]", "b[x]"])
    #expect(coordinator.request(id(2), request("y")).prepared == ["a[y]", "b[y]"])
    #expect(coordinator.request(id(3), request("x")).prepared == [])
    #expect(Set(coordinator.locks.keys) == ["a[x]", "b[x]", "a[y]", "b[y]"])
    // The votes name the transaction, so they belong to its instance.
    let second = commit(transaction(2), ["a", "b"], in: &coordinator)
    #expect(second.committed == ["a[y]", "b[y]"])
    #expect(second.prepared == [])
    let first = commit(transaction(1), ["a", "b"], in: &coordinator)
    #expect(first.committed == ["a[x]", "b[x]"])
    #expect(first.prepared == ["a[x]", "b[x]"])
    #expect(
      first.replies[id(1)]
        == .atomic(.committed(transaction(1), versions: ["a[x]": 1, "b[x]": 1])))
  }

  @Test("A vote for one instance acknowledges no commit of another instance")
  func acknowledgements() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request("x"))
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    _ = coordinator.request(id(2), request("y"))
    _ = commit(transaction(2), ["a", "b"], in: &coordinator)
    #expect(coordinator.transactionsInProgress.map(\.id) == [transaction(1), transaction(2)])
    // A participant that has joined again receives all its commits.
    #expect(coordinator.connected("a").committed == ["a[x]", "a[y]"])
    for name in ["a", "b"] { _ = coordinator.received(.ack(transaction(1)), from: name) }
    #expect(coordinator.transactionsInProgress.map(\.id) == [transaction(2)])
    // The next vote of the same instance acknowledges its earlier commit.
    _ = coordinator.request(id(3), request("y"))
    for name in ["a", "b"] {
      _ = coordinator.received(.yes(transaction(3), Self.move), from: name)
    }
    #expect(coordinator.transactionsInProgress.map(\.id) == [transaction(3)])
  }

  @Test("A vote acknowledges no commit of an instance whose key differs only by normalization")
  func normalization() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request("\u{E9}"))
    _ = commit(transaction(1), ["a", "b"], in: &coordinator)
    _ = coordinator.request(id(2), request("e\u{301}"))
    _ = commit(transaction(2), ["a", "b"], in: &coordinator)
    // The first commit may still be lost, so its outcome must stay known.
    #expect(coordinator.transactionsInProgress.map(\.id) == [transaction(1), transaction(2)])
    #expect(coordinator.received(.query(transaction(1)), from: "a").committed.count == 1)
  }

  @Test("If a node is disconnected, the undecided transactions of all its instances are aborted")
  func disconnected() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request("x"))
    _ = coordinator.request(id(2), request("y"))
    let actions = coordinator.disconnected("b")
    #expect(Set(actions.aborted) == ["a[x]", "b[x]", "a[y]", "b[y]"])
    #expect(actions.replies[id(1)] == .atomic(.unavailable("b[x]")))
    #expect(
      coordinator.request(id(3), request("z")).replies[id(3)] == .atomic(.unavailable("b[z]")))
  }

  @Test("A waiting request is tried again when its instance has changed")
  func waiting() {
    var coordinator = coordinator()
    _ = coordinator.request(id(1), request("x", .await(nil)))
    let refusal = ParticipantRefusal.refused(.noTransition, version: 1, state: [1])
    #expect(coordinator.received(.no(transaction(1), refusal), from: "a").prepared == [])
    #expect(coordinator.received(.instanceChanged("y"), from: "a").prepared == [])
    #expect(coordinator.received(.instanceChanged("x"), from: "a").prepared == ["a[x]", "b[x]"])
  }

  @Test("A restarted coordinator sends the commits of all instances again")
  func recovered() {
    var journal = CoordinatorJournal()
    journal.epoch = 1
    for (number, key) in [(1, "x"), (2, "y")] as [(UInt64, String)] {
      journal.commits.append(
        CommitRecord(
          transaction: transaction(number), request: id(number),
          moves: ["a[\(key)]": Self.move, "b[\(key)]": Self.move]))
    }
    var coordinator = CoordinatorStateMachine(name: "lift", journal: journal)
    _ = coordinator.start()
    _ = coordinator.recorded(.start(epoch: coordinator.epoch))
    let actions = coordinator.connected(
      "a", watermark: transaction(3), prepared: [transaction(1), transaction(3)])
    #expect(Set(actions.committed) == ["a[x]", "a[y]"])
    #expect(actions.aborted == ["a"])
  }
}
