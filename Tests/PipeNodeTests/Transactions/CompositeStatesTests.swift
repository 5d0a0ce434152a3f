import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("What composites show of their components")
struct CompositeStatesTests {
  private static func plan(_ name: String, _ nodes: [String]) -> CompositePlan {
    CompositePlan(name: name, components: nodes, nodes: nodes, vectors: [], events: [])
  }

  private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  private static func move(_ version: UInt64, _ state: String) -> ParticipantMove {
    ParticipantMove(version: version, state: bytes(state))
  }

  /// Two components of a composite, each in its first state.
  private static func pair() -> CompositeStates {
    var states = CompositeStates([plan("pair", ["a", "b"]), plan("other", ["b", "c"])])
    _ = states.told("a", incarnation: 1, version: 0, state: bytes("0"), isCommitting: false)
    _ = states.told("b", incarnation: 1, version: 0, state: bytes("0"), isCommitting: false)
    return states
  }

  private static func text(_ states: CompositeStates) -> String? {
    states.state(of: "pair").map { String(decoding: $0, as: UTF8.self) }
  }

  @Test("nothing is shown before every component has told its state")
  func incomplete() {
    var states = CompositeStates([Self.plan("pair", ["a", "b"])])
    #expect(
      states.told("a", incarnation: 1, version: 0, state: Self.bytes("0"), isCommitting: false)
        .isEmpty)
    #expect(states.state(of: "pair") == nil)
    #expect(
      states.told("b", incarnation: 1, version: 0, state: Self.bytes("0"), isCommitting: false)
        == ["pair"])
    #expect(Self.text(states) == #"{"a":0,"b":0}"#)
    #expect(states.version(of: "pair") == 0)
  }

  @Test("a commit shows all its moves as one state, and what is told of them later is passed over")
  func commit() {
    var states = Self.pair()
    let moves = ["a": Self.move(2, "2"), "b": Self.move(1, "1")]
    #expect(states.committed(moves) == ["pair"])
    #expect(Self.text(states) == #"{"a":2,"b":1}"#)
    #expect(states.version(of: "pair") == 1)
    for version: UInt64 in [1, 2] {
      let changed = states.told(
        "a", incarnation: 1, version: version, state: Self.bytes("\(version)"), isCommitting: true)
      #expect(changed.isEmpty)
    }
    #expect(
      states.told("a", incarnation: 1, version: 3, state: Self.bytes("3"), isCommitting: false)
        == ["pair"])
    #expect(Self.text(states) == #"{"a":3,"b":1}"#)
  }

  @Test(
    "a commit before a restart of the coordinator shows nothing until all have told their states")
  func restored() {
    for bVersion in [1, 4] as [UInt64] {
      var states = CompositeStates([Self.plan("pair", ["a", "b"])])
      states.restore(["a": Self.move(1, "1"), "b": Self.move(1, "1")])
      #expect(states.state(of: "pair") == nil)
      // It may have moved on, as the other one has.
      let first = states.told(
        "b", incarnation: 1, version: bVersion, state: Self.bytes("\(bVersion)"),
        isCommitting: false)
      #expect(first.isEmpty)
      #expect(states.state(of: "pair") == nil)
      // What was told before the commit reached it says nothing of where it is by then.
      #expect(
        states.told("a", incarnation: 1, version: 0, state: Self.bytes("0"), isCommitting: true)
          .isEmpty)
      #expect(states.state(of: "pair") == nil)
      #expect(states.takeUnconfirmed { _ in false } == ["a"])
      #expect(
        states.told("a", incarnation: 1, version: 1, state: Self.bytes("1"), isCommitting: false)
          == ["pair"])
      #expect(Self.text(states) == #"{"a":1,"b":\#(bVersion)}"#)
      #expect(states.version(of: "pair") == 0)
    }
  }

  @Test("a commit of this process shows its participants, whatever was restored of them")
  func committedAfterRestore() {
    var states = CompositeStates([Self.plan("pair", ["a", "b"])])
    states.restore(["a": Self.move(1, "1"), "b": Self.move(1, "1")])
    #expect(states.committed(["a": Self.move(2, "2"), "b": Self.move(7, "7")]) == ["pair"])
    #expect(Self.text(states) == #"{"a":2,"b":7}"#)
  }

  @Test("a participant that is started again in the middle of a commit does not tear the state")
  func restarted() {
    var states = Self.pair()
    _ = states.committed(["a": Self.move(1, "1"), "b": Self.move(1, "1")])
    // Prepared, and restored in the state before.
    let early = states.told(
      "a", incarnation: 2, version: 0, state: Self.bytes("0"), isCommitting: true)
    #expect(early.isEmpty)
    #expect(Self.text(states) == #"{"a":1,"b":1}"#)
    #expect(states.unconfirmed == ["a"])
    #expect(states.takeUnconfirmed { _ in true } == [])
    #expect(states.takeUnconfirmed { $0 != "a" } == ["a"])
    #expect(states.unconfirmed == [])
    // Asked again without a commit under way, it has started anew.
    let lost = states.told(
      "a", incarnation: 2, version: 0, state: Self.bytes("0"), isCommitting: false)
    #expect(lost == ["pair"])
    let anew = states.told(
      "a", incarnation: 3, version: 0, state: Self.bytes("5"), isCommitting: false)
    #expect(anew == ["pair"])
    // What an earlier incarnation had told comes too late.
    let late = states.told(
      "a", incarnation: 2, version: 9, state: Self.bytes("9"), isCommitting: false)
    #expect(late.isEmpty)
  }

  @Test("a change is shown by every composite that has the component, and by no other")
  func shared() {
    var states = Self.pair()
    _ = states.told("c", incarnation: 1, version: 0, state: Self.bytes("0"), isCommitting: false)
    #expect(
      states.told("b", incarnation: 1, version: 1, state: Self.bytes("1"), isCommitting: false)
        == ["pair", "other"])
    #expect(
      states.told("c", incarnation: 1, version: 1, state: Self.bytes("1"), isCommitting: false)
        == ["other"])
  }

  @Test("a projection is shown in place of the tuple")
  func projection() {
    var states = CompositeStates(
      [Self.plan("pair", ["a", "b"])],
      projections: ["pair": { parts in .string(parts.map(\.text).joined(separator: "+")) }])
    _ = states.committed(["a": Self.move(1, "1"), "b": Self.move(1, "2")])
    #expect(Self.text(states) == #""1+2""#)
  }
}

@Suite("What callers and coordinators write")
struct SynchronizedBodyTests {
  @Test(
    "a body has the composite's name and the event, in both of its forms",
    arguments: [#""stop""#, #"{"stop":{}}"#, #" { "stop" : {"floor":3}}"#])
  func body(event: String) throws {
    let body = TransactionBody(composite: "lift", event: Array(event.utf8))
    let read = try #require(TransactionBody(body.bytes))
    #expect(read.composite == "lift")
    #expect(read.event == Array(event.utf8))
    #expect(read.eventName == "stop")
  }

  @Test("what is no body is none", arguments: ["", "lift", "lift\n", "\n\"stop\""])
  func malformed(text: String) {
    #expect(TransactionBody(Array(text.utf8)) == nil)
  }

  @Test("an event that is not that of a case has no name", arguments: ["3", "[\"stop\"]", "null"])
  func nameless(text: String) {
    #expect(TransactionBody(composite: "lift", event: Array(text.utf8)).eventName == nil)
  }

  private static let withheld = Withholding(
    participant: "door", state: ["open": ["persons": 2]], version: 3, reason: .guard)

  @Test(
    "every reply survives the way to its caller",
    arguments: [
      .atomic(.committed(TransactionID(epoch: 3, sequence: 17), versions: ["door": 4])),
      .atomic(.refused([withheld])), .atomic(.busy(["door", "motor"])),
      .atomic(.unavailable("door")),
      .atomic(.unknown(TransactionID(epoch: 3, sequence: 17))),
      .broadcast([
        "a": .moved(version: 4), "b": .refused(withheld), "c": .busy, "d": .unavailable,
        "e": .unknown,
      ]),
    ] as [TransactionReply])
  func reply(_ reply: TransactionReply) throws {
    #expect(TransactionReply(json: try JSONValue(parsing: reply.json.bytes)) == reply)
  }

  @Test("JSON that is no reply is none", arguments: ["null", "{}", #"{"outcome":"committed"}"#])
  func noReply(text: String) throws {
    #expect(TransactionReply(json: try JSONValue(parsing: text.utf8)) == nil)
  }
}
