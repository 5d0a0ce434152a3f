import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("The states of composites")
struct CompositeStatesTests {
  private static func plan(_ name: String, _ nodes: [String]) -> CompositePlan {
    CompositePlan(name: name, components: nodes, nodes: nodes, vectors: [], events: [])
  }

  private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  private static func move(_ version: UInt64, _ state: String) -> ParticipantMove {
    ParticipantMove(version: version, state: bytes(state))
  }

  /// Returns a composite with two components, each in its first state.
  private static func pair() -> CompositeStates {
    var states = CompositeStates([plan("pair", ["a", "b"]), plan("other", ["b", "c"])])
    _ = states.reported("a", incarnation: 1, version: 0, state: bytes("0"), isCommitting: false)
    _ = states.reported("b", incarnation: 1, version: 0, state: bytes("0"), isCommitting: false)
    return states
  }

  private static func text(_ states: CompositeStates) -> String? {
    states.state(of: "pair").map { String(decoding: $0, as: UTF8.self) }
  }

  @Test("A composite has no state before all its components have reported their states")
  func incomplete() {
    var states = CompositeStates([Self.plan("pair", ["a", "b"])])
    #expect(
      states.reported("a", incarnation: 1, version: 0, state: Self.bytes("0"), isCommitting: false)
        .isEmpty)
    #expect(states.state(of: "pair") == nil)
    #expect(
      states.reported("b", incarnation: 1, version: 0, state: Self.bytes("0"), isCommitting: false)
        == ["pair"])
    #expect(Self.text(states) == #"{"a":0,"b":0}"#)
    #expect(states.version(of: "pair") == 0)
  }

  @Test("A commit changes the states of all participants at once, and repeated reports are ignored")
  func commit() {
    var states = Self.pair()
    let moves = ["a": Self.move(2, "2"), "b": Self.move(1, "1")]
    #expect(states.committed(moves) == ["pair"])
    #expect(Self.text(states) == #"{"a":2,"b":1}"#)
    #expect(states.version(of: "pair") == 1)
    for version: UInt64 in [1, 2] {
      let changed = states.reported(
        "a", incarnation: 1, version: version, state: Self.bytes("\(version)"), isCommitting: true)
      #expect(changed.isEmpty)
    }
    #expect(
      states.reported("a", incarnation: 1, version: 3, state: Self.bytes("3"), isCommitting: false)
        == ["pair"])
    #expect(Self.text(states) == #"{"a":3,"b":1}"#)
  }

  @Test(
    "After a restart, a composite has no state before all its components have reported")
  func restored() {
    for bVersion in [1, 4] as [UInt64] {
      var states = CompositeStates([Self.plan("pair", ["a", "b"])])
      states.restore(["a": Self.move(1, "1"), "b": Self.move(1, "1")])
      #expect(states.state(of: "pair") == nil)
      // This participant may have taken further steps, like the other participant.
      let first = states.reported(
        "b", incarnation: 1, version: bVersion, state: Self.bytes("\(bVersion)"),
        isCommitting: false)
      #expect(first.isEmpty)
      #expect(states.state(of: "pair") == nil)
      // A report from before the commit does not show the participant's current state.
      #expect(
        states.reported("a", incarnation: 1, version: 0, state: Self.bytes("0"), isCommitting: true)
          .isEmpty)
      #expect(states.state(of: "pair") == nil)
      #expect(states.takeUnconfirmed { _ in false } == ["a"])
      #expect(
        states.reported(
          "a", incarnation: 1, version: 1, state: Self.bytes("1"), isCommitting: false)
          == ["pair"])
      #expect(Self.text(states) == #"{"a":1,"b":\#(bVersion)}"#)
      #expect(states.version(of: "pair") == 0)
    }
  }

  @Test("A commit after a restart shows the participants' new states, not the restored states")
  func committedAfterRestore() {
    var states = CompositeStates([Self.plan("pair", ["a", "b"])])
    states.restore(["a": Self.move(1, "1"), "b": Self.move(1, "1")])
    #expect(states.committed(["a": Self.move(2, "2"), "b": Self.move(7, "7")]) == ["pair"])
    #expect(Self.text(states) == #"{"a":2,"b":7}"#)
  }

  @Test("If a participant restarts during a commit, the composite keeps the committed state")
  func restarted() {
    var states = Self.pair()
    _ = states.committed(["a": Self.move(1, "1"), "b": Self.move(1, "1")])
    // The participant is prepared, and was restored in the former state.
    let early = states.reported(
      "a", incarnation: 2, version: 0, state: Self.bytes("0"), isCommitting: true)
    #expect(early.isEmpty)
    #expect(Self.text(states) == #"{"a":1,"b":1}"#)
    #expect(states.unconfirmedComponents == ["a"])
    #expect(states.takeUnconfirmed { _ in true } == [])
    #expect(states.takeUnconfirmed { $0 != "a" } == ["a"])
    #expect(states.unconfirmedComponents == [])
    // A report without a commit in progress means that the participant has started again.
    let lost = states.reported(
      "a", incarnation: 2, version: 0, state: Self.bytes("0"), isCommitting: false)
    #expect(lost == ["pair"])
    let updated = states.reported(
      "a", incarnation: 3, version: 0, state: Self.bytes("5"), isCommitting: false)
    #expect(updated == ["pair"])
    // A report of an earlier incarnation comes too late.
    let late = states.reported(
      "a", incarnation: 2, version: 9, state: Self.bytes("9"), isCommitting: false)
    #expect(late.isEmpty)
  }

  @Test(
    "A component's step is shown by each composite that contains the component, and by no other")
  func shared() {
    var states = Self.pair()
    _ = states.reported(
      "c", incarnation: 1, version: 0, state: Self.bytes("0"), isCommitting: false)
    #expect(
      states.reported("b", incarnation: 1, version: 1, state: Self.bytes("1"), isCommitting: false)
        == ["pair", "other"])
    #expect(
      states.reported("c", incarnation: 1, version: 1, state: Self.bytes("1"), isCommitting: false)
        == ["other"])
  }

  @Test("A composite with a projection shows the projected state, not the tuple of states")
  func projection() {
    var states = CompositeStates(
      [Self.plan("pair", ["a", "b"])],
      projections: ["pair": { parts in .string(parts.map(\.text).joined(separator: "+")) }])
    _ = states.committed(["a": Self.move(1, "1"), "b": Self.move(1, "2")])
    #expect(Self.text(states) == #""1+2""#)
  }
}

@Suite("The messages of clients and coordinators")
struct SynchronizedBodyTests {
  @Test(
    "A transaction body contains the composite's name, and the event as a label or an object",
    arguments: [#""stop""#, #"{"stop":{}}"#, #" { "stop" : {"floor":3}}"#])
  func body(event: String) throws {
    let body = TransactionBody(composite: "lift", event: Array(event.utf8))
    let read = try #require(TransactionBody(body.bytes))
    #expect(read.composite == "lift")
    #expect(read.event == Array(event.utf8))
    #expect(read.eventName == "stop")
  }

  @Test(
    "A malformed transaction body is rejected", arguments: ["", "lift", "lift\n", "\n\"stop\""])
  func malformed(text: String) {
    #expect(TransactionBody(Array(text.utf8)) == nil)
  }

  @Test(
    "JSON that is neither a string nor an object has no event name",
    arguments: ["3", "[\"stop\"]", "null"])
  func nameless(text: String) {
    #expect(TransactionBody(composite: "lift", event: Array(text.utf8)).eventName == nil)
  }

  private static let blocker = BlockingParticipant(
    participant: "door", state: ["open": ["persons": 2]], version: 3, reason: .guard)

  @Test(
    "Every reply is unchanged by encoding and decoding on the way to its client",
    arguments: [
      .atomic(.committed(TransactionID(epoch: 3, sequence: 17), versions: ["door": 4])),
      .atomic(.refused([blocker])), .atomic(.busy(["door", "motor"])),
      .atomic(.unavailable("door")),
      .atomic(.unknown(TransactionID(epoch: 3, sequence: 17))),
      .broadcast([
        "a": .accepted(version: 4), "b": .refused(blocker), "c": .busy, "d": .unavailable,
        "e": .unknown,
      ]),
    ] as [TransactionReply])
  func reply(_ reply: TransactionReply) throws {
    #expect(TransactionReply(json: try JSONValue(parsing: reply.json.bytes)) == reply)
  }

  @Test(
    "JSON that is not a reply is rejected", arguments: ["null", "{}", #"{"outcome":"committed"}"#])
  func noReply(text: String) throws {
    #expect(TransactionReply(json: try JSONValue(parsing: text.utf8)) == nil)
  }
}
