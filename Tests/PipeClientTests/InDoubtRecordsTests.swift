import PipeClient
import PipeMachines
import PipeWire
import Testing

@Suite("Composites with nodes in doubt")
struct InDoubtRecordsTests {
  private static func plan(_ name: String, _ nodes: [String]) -> ConflictClassPlan {
    ConflictClassPlan(
      name: name, program: "nodes", durability: .process,
      composites: [
        CompositePlan(name: name, components: nodes, nodes: nodes, vectors: [], events: [])
      ], components: [])
  }

  private static func doubt(_ node: String) -> InDoubtTransaction {
    InDoubtTransaction(
      participant: node, composite: "pair", event: "meet",
      transaction: TransactionID(epoch: 1, sequence: 2), since: 3)
  }

  private static func change(
    _ node: String, _ version: UInt64, cause: String = "pair", inDoubt: Bool = false
  ) -> StateChange {
    StateChange(
      node: node, incarnation: 1, version: version, time: 0, cause: cause,
      state: .integer(Int64(version)), missedCount: 7, doubts: inDoubt ? [doubt(node)] : [])
  }

  /// Returns the changes as `name version`, with `?` for each node in doubt.
  private static func text(_ changes: [StateChange]) -> [String] {
    changes.map { "\($0.node) \($0.version)" + $0.doubts.map { _ in "?" }.joined() }
  }

  /// Returns the records for a composite of two nodes, after all nodes have reported their first
  /// states. The monitor also shows one of the nodes.
  private static func pair(receivesEveryState: Bool = true) -> InDoubtRecords {
    var records = InDoubtRecords(
      watchedNames: ["pair", "other", "a"],
      coordinatorPlans: [
        plan("pair", ["a", "b"]), plan("other", ["b", "c"]), plan("third", ["z"]),
      ],
      receivesEveryState: receivesEveryState)
    #expect(text(records.take(change("a", 0, cause: "initial"))) == ["a 0"])
    #expect(text(records.take(change("b", 0, cause: "initial"))) == [])
    #expect(text(records.take(change("pair", 0, cause: "a"))) == ["pair 0"])
    return records
  }

  @Test("Subscriptions include all nodes of the shown composites")
  func nodes() {
    #expect(Self.pair().nodes == ["a", "b", "c"])
  }

  @Test(
    "A composite is shown again when a node becomes in doubt, and when the event is aborted")
  func abort() {
    var records = Self.pair()
    let marked = records.take(Self.change("b", 0, cause: "initial", inDoubt: true))
    // The other composite has not been shown yet, so there is nothing to mark.
    #expect(Self.text(marked) == ["pair 0?"])
    #expect(marked[0].doubts == [Self.doubt("b")])
    #expect(marked[0].missedCount == 0)
    #expect(Self.text(records.take(Self.change("other", 0, cause: "c"))) == ["other 0?"])
    #expect(
      Self.text(records.take(Self.change("a", 0, cause: "initial", inDoubt: true)))
        == ["a 0?", "pair 0??"])
    #expect(
      Self.text(records.take(Self.change("b", 0, cause: "initial"))) == ["other 0", "pair 0?"])
    #expect(Self.text(records.take(Self.change("a", 0, cause: "initial"))) == ["a 0", "pair 0"])
  }

  @Test("A commit is shown once, as the composite's new state without nodes in doubt")
  func commitToldByNodesFirst() {
    var records = Self.pair()
    _ = records.take(Self.change("a", 0, cause: "initial", inDoubt: true))
    _ = records.take(Self.change("b", 0, cause: "initial", inDoubt: true))
    #expect(Self.text(records.take(Self.change("a", 1))) == ["a 1"])
    #expect(Self.text(records.take(Self.change("b", 1))) == [])
    #expect(Self.text(records.take(Self.change("pair", 1, cause: "meet"))) == ["pair 1"])
    #expect(Self.text(records.take(Self.change("a", 2, cause: "request"))) == ["a 2"])
  }

  @Test("Nodes are in doubt until their own step, even if the composite reports the commit earlier")
  func commitToldByCompositeFirst() {
    var records = Self.pair()
    _ = records.take(Self.change("a", 0, cause: "initial", inDoubt: true))
    _ = records.take(Self.change("b", 0, cause: "initial", inDoubt: true))
    #expect(Self.text(records.take(Self.change("pair", 1, cause: "meet"))) == ["pair 1??"])
    #expect(Self.text(records.take(Self.change("b", 1))) == ["pair 1?"])
    #expect(Self.text(records.take(Self.change("a", 1))) == ["a 1", "pair 1"])
  }

  @Test("A node that restarts in doubt stays in doubt")
  func restart() {
    var records = Self.pair()
    _ = records.take(Self.change("a", 0, cause: "initial", inDoubt: true))
    var again = Self.change("a", 0, cause: "initial", inDoubt: true)
    again.incarnation = 2
    again.doubts[0].since = 9
    #expect(Self.text(records.take(again)) == ["a 0?", "pair 0?"])
    #expect(Self.text(records.take(Self.change("a", 1))) == ["a 1"])
    #expect(Self.text(records.take(Self.change("pair", 1, cause: "meet"))) == ["pair 1"])
  }

  @Test("A restarted node that is in doubt after the commit stays in doubt until its next state")
  func restartToldLate() {
    var records = Self.pair()
    _ = records.take(Self.change("a", 0, cause: "initial", inDoubt: true))
    #expect(Self.text(records.take(Self.change("pair", 1, cause: "meet"))) == ["pair 1?"])
    var again = Self.change("a", 0, cause: "initial", inDoubt: true)
    again.incarnation = 2
    again.doubts[0].since = 9
    #expect(Self.text(records.take(again)) == ["a 0?", "pair 1?"])
    #expect(Self.text(records.take(Self.change("a", 1))) == ["a 1", "pair 1"])
  }

  @Test("A monitor of latest states shows a composite at once when no node is in doubt any more")
  func latest() {
    var records = Self.pair(receivesEveryState: false)
    _ = records.take(Self.change("a", 0, cause: "initial", inDoubt: true))
    // The committed state and a step of another node are reported as one change.
    #expect(Self.text(records.take(Self.change("pair", 2, cause: "b"))) == ["pair 2?"])
    #expect(Self.text(records.take(Self.change("a", 1))) == ["a 1", "pair 2"])
  }

  @Test("An in-doubt transaction is encoded as JSON with a readable transaction number")
  func json() throws {
    let json = try JSONValue(encoding: Self.doubt("a"))
    #expect(json["transaction"] == "1.2")
    #expect(try json.decode(InDoubtTransaction.self) == Self.doubt("a"))
    var broken = json
    if case .object(var members) = json {
      members["transaction"] = "1"
      broken = .object(members)
    }
    #expect(throws: DecodingError.self) { try broken.decode(InDoubtTransaction.self) }
  }
}
