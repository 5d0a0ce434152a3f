import PipeMachines
import PipeNode
import PipeWire
import Testing

@Suite("The rules of pipes from a composite")
struct CompositeRulesTests {
  private struct Unshown: Error {}

  private static let plan = CompositePlan(
    name: "pair", components: ["a", "b"], nodes: ["a", "b"], vectors: [], events: [])
  private static let meeting = TransactionID(epoch: 1, sequence: 1)

  private var nodes: [String: CompositeSteps.Node] = [:]
  private var problems: [String] = []

  private static func rules(
    _ rule: NodeConfiguration.Rule, _ projection: CompositeStates.Projection? = nil,
    nodes: [String: CompositeSteps.Node] = [:]
  ) throws -> CompositeRules {
    try CompositeRules(
      [plan], rules: [("out", rule)], projections: projection.map { ["pair": $0] } ?? [:],
      nodes: nodes)
  }

  /// Changes the states of nodes in one step, and returns the sent events.
  private mutating func move(
    _ states: [String: JSONValue?], in rules: inout CompositeRules, entry: StepReport.Entry = .step
  ) -> [String] {
    var step = CompositeSteps.Step(
      reported: [:], transaction: states.count > 1 ? Self.meeting : nil, isEntry: entry != .none)
    for (name, state) in states {
      nodes[name] = CompositeSteps.Node(state: state?.bytes, completeThrough: .zero)
      step.reported[name] = CompositeSteps.Report(
        StepReport(entry, state: state?.bytes), index: 1)
    }
    var found: [String] = []
    let events = rules.take(step, nodes) { found.append("\($0): \($1)") }
    problems += found
    return events.map { "\($0.pipe) \(String(decoding: $0.event, as: UTF8.self))" }
  }

  @Test("A rule over nodes' states fires when one of the states changes and all states are known")
  mutating func tuple() throws {
    var rules = try Self.rules(
      .init(when: nil, send: "go", composite: "pair", states: ["a": "open", "b": "idle"]))
    #expect(move(["a": ["open": ["n": 1]]], in: &rules) == [])
    #expect(move(["b": "idle"], in: &rules) == ["out \"go\""])
    #expect(move(["b": "idle"], in: &rules) == [])
    #expect(move(["a": ["open": ["n": 2]]], in: &rules) == ["out \"go\""])
    #expect(move(["a": "shut"], in: &rules) == [])
  }

  @Test("A synchronized event enters the composite's state again, even if the state is unchanged")
  mutating func again() throws {
    var rules = try Self.rules(
      .init(when: nil, send: "go", composite: "pair", states: ["a": "open"]))
    for _ in 1...3 { #expect(move(["a": "open", "b": "idle"], in: &rules) == ["out \"go\""]) }
  }

  @Test("A node's internal transition changes the composite's state without entering a state")
  mutating func internalTransition() throws {
    var rules = try Self.rules(
      .init(when: nil, send: ["seen": "$a"], composite: "pair", states: ["a": "open"]))
    #expect(
      move(["a": ["open": ["n": 1]], "b": "idle"], in: &rules) == [
        #"out {"seen":{"open":{"n":1}}}"#
      ])
    #expect(move(["a": ["open": ["n": 2]]], in: &rules, entry: .internal) == [])
    #expect(move(["a": ["open": ["n": 3]], "b": "idle"], in: &rules, entry: .internal) == [])
    // The next entry of another node is an entry with the changed values.
    #expect(move(["b": "busy"], in: &rules) == [#"out {"seen":{"open":{"n":3}}}"#])
  }

  @Test("A rule's values come from the projection's state or from the nodes' states")
  mutating func values() throws {
    var rules = try Self.rules(
      .init(when: "sum", send: ["count": ["n": "$n"]], composite: "pair"),
      { states in ["sum": ["n": .integer((states[0].integer ?? 0) + (states[1].integer ?? 0))]] })
    #expect(move(["a": 2, "b": 3], in: &rules) == [#"out {"count":{"n":5}}"#])
    // The projection's state stays the same.
    #expect(move(["a": 2], in: &rules) == [])
    rules = try Self.rules(
      .init(when: nil, send: ["seen": ["state": "$b"]], composite: "pair", states: ["a": "on"]),
      nodes: nodes)
    #expect(move(["a": "on"], in: &rules) == [#"out {"seen":{"state":3}}"#])
  }

  @Test("A rule does not fire if a node reports its state after a restart")
  mutating func standing() throws {
    let rule = NodeConfiguration.Rule(
      when: nil, send: "go", composite: "pair", states: ["a": "open"])
    var rules = try Self.rules(rule)
    #expect(move(["b": "idle"], in: &rules, entry: .none) == [])
    #expect(move(["a": "open"], in: &rules, entry: .none) == [])
    #expect(move(["b": "busy"], in: &rules) == ["out \"go\""])
    // The next process knows the state from the journal.
    rules = try Self.rules(rule, nodes: nodes)
    #expect(move(["b": "busy"], in: &rules) == [])
  }

  @Test(
    "A projection that throws is reported and sends nothing, and the next state counts as entered")
  mutating func throwing() throws {
    var rules = try Self.rules(
      .init(when: "fine", send: "go", composite: "pair"),
      { states in
        if states[0] == "bad" { throw Unshown() }
        return "fine"
      })
    #expect(move(["a": "good", "b": "good"], in: &rules) == ["out \"go\""])
    #expect(move(["a": "bad"], in: &rules) == [])
    #expect(problems == ["pair: Unshown()"])
    #expect(move(["b": "better"], in: &rules) == [])
    #expect(move(["a": "good"], in: &rules) == ["out \"go\""])
  }

  @Test("A composite has no state while one of its components cannot report a state")
  mutating func missingComponentState() throws {
    let rule = NodeConfiguration.Rule(
      when: nil, send: "go", composite: "pair", states: ["b": "idle"])
    var rules = try Self.rules(rule)
    #expect(move(["a": "open", "b": "idle"], in: &rules) == ["out \"go\""])
    #expect(move(["a": nil, "b": "idle"], in: &rules) == [])
    #expect(problems == ["pair: node 'a' cannot report its state; check the log of node 'a'"])
    #expect(move(["b": "idle"], in: &rules) == [])
    // The next process does not know the state, either.
    rules = try Self.rules(rule, nodes: nodes)
    #expect(move(["b": "idle"], in: &rules) == [])
    #expect(move(["a": "open"], in: &rules) == ["out \"go\""])
  }
}
