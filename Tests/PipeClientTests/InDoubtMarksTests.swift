import PipeClient
import PipeMachines
import PipeWire
import Testing

@Suite("Composites whose nodes are in doubt")
struct InDoubtMarksTests {
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
      state: .integer(Int64(version)), missed: 7, doubts: inDoubt ? [doubt(node)] : [])
  }

  /// What is shown, as `name version`, with `?` for each doubt.
  private static func text(_ changes: [StateChange]) -> [String] {
    changes.map { "\($0.node) \($0.version)" + $0.doubts.map { _ in "?" }.joined() }
  }

  /// A pair of two nodes, of which one is watched itself; all have told their first state.
  private static func pair(seesEvery: Bool = true) -> InDoubtMarks {
    var marks = InDoubtMarks(
      shown: ["pair", "other", "a"],
      classes: [plan("pair", ["a", "b"]), plan("other", ["b", "c"]), plan("third", ["z"])],
      seesEvery: seesEvery)
    #expect(text(marks.take(change("a", 0, cause: "initial"))) == ["a 0"])
    #expect(text(marks.take(change("b", 0, cause: "initial"))) == [])
    #expect(text(marks.take(change("pair", 0, cause: "a"))) == ["pair 0"])
    return marks
  }

  @Test("the nodes to be listened to are those of the composites that are shown")
  func nodes() {
    #expect(Self.pair().nodes == ["a", "b", "c"])
  }

  @Test("a composite is shown again, marked, when a doubt begins, and when it ends with nothing")
  func abort() {
    var marks = Self.pair()
    let marked = marks.take(Self.change("b", 0, cause: "initial", inDoubt: true))
    // The other composite has shown nothing yet, which could be marked.
    #expect(Self.text(marked) == ["pair 0?"])
    #expect(marked[0].doubts == [Self.doubt("b")])
    #expect(marked[0].missed == 0)
    #expect(Self.text(marks.take(Self.change("other", 0, cause: "c"))) == ["other 0?"])
    #expect(
      Self.text(marks.take(Self.change("a", 0, cause: "initial", inDoubt: true)))
        == ["a 0?", "pair 0??"])
    #expect(
      Self.text(marks.take(Self.change("b", 0, cause: "initial"))) == ["other 0", "pair 0?"])
    #expect(Self.text(marks.take(Self.change("a", 0, cause: "initial"))) == ["a 0", "pair 0"])
  }

  @Test("a doubt that ends with a commit ends for the composite with the state that it led to")
  func commitToldByNodesFirst() {
    var marks = Self.pair()
    _ = marks.take(Self.change("a", 0, cause: "initial", inDoubt: true))
    _ = marks.take(Self.change("b", 0, cause: "initial", inDoubt: true))
    #expect(Self.text(marks.take(Self.change("a", 1))) == ["a 1"])
    #expect(Self.text(marks.take(Self.change("b", 1))) == [])
    #expect(Self.text(marks.take(Self.change("pair", 1, cause: "meet"))) == ["pair 1"])
    #expect(Self.text(marks.take(Self.change("a", 2, cause: "request"))) == ["a 2"])
  }

  @Test("the same where the composite tells of the commit before its nodes do")
  func commitToldByCompositeFirst() {
    var marks = Self.pair()
    _ = marks.take(Self.change("a", 0, cause: "initial", inDoubt: true))
    _ = marks.take(Self.change("b", 0, cause: "initial", inDoubt: true))
    #expect(Self.text(marks.take(Self.change("pair", 1, cause: "meet"))) == ["pair 1??"])
    #expect(Self.text(marks.take(Self.change("b", 1))) == ["pair 1?"])
    #expect(Self.text(marks.take(Self.change("a", 1))) == ["a 1", "pair 1"])
  }

  @Test("a node that is started again in doubt stays so")
  func restart() {
    var marks = Self.pair()
    _ = marks.take(Self.change("a", 0, cause: "initial", inDoubt: true))
    var again = Self.change("a", 0, cause: "initial", inDoubt: true)
    again.incarnation = 2
    again.doubts[0].since = 9
    #expect(Self.text(marks.take(again)) == ["a 0?", "pair 0?"])
    #expect(Self.text(marks.take(Self.change("a", 1))) == ["a 1"])
    #expect(Self.text(marks.take(Self.change("pair", 1, cause: "meet"))) == ["pair 1"])
  }

  @Test("a node that tells its doubt anew after the composite told of the commit is not waited for")
  func restartToldLate() {
    var marks = Self.pair()
    _ = marks.take(Self.change("a", 0, cause: "initial", inDoubt: true))
    #expect(Self.text(marks.take(Self.change("pair", 1, cause: "meet"))) == ["pair 1?"])
    var again = Self.change("a", 0, cause: "initial", inDoubt: true)
    again.incarnation = 2
    again.doubts[0].since = 9
    #expect(Self.text(marks.take(again)) == ["a 0?", "pair 1?"])
    #expect(Self.text(marks.take(Self.change("a", 1))) == ["a 1", "pair 1"])
  }

  @Test("where only the latest states are told, a doubt that has ended is waited for no longer")
  func latest() {
    var marks = Self.pair(seesEvery: false)
    _ = marks.take(Self.change("a", 0, cause: "initial", inDoubt: true))
    // The state that the commit led to, and a step of another node, are told as one.
    #expect(Self.text(marks.take(Self.change("pair", 2, cause: "b"))) == ["pair 2?"])
    #expect(Self.text(marks.take(Self.change("a", 1))) == ["a 1", "pair 2"])
  }

  @Test("a doubt travels as JSON with its transaction as people write it")
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
