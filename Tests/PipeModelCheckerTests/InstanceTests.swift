import PipeModelChecker
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing

@Suite("The search of nodes with a key", .stallLimit(.seconds(120)))
struct InstanceTests {
  /// Returns the line of a node with `key: id`.
  private static func keyed(
    _ name: String, _ steps: [String], start: String = "0", final: [String] = []
  ) -> String {
    let list = steps.map { "\"\($0)\"" }.joined(separator: ", ")
    let end = final.isEmpty ? "" : ", final: [\(final.joined(separator: ", "))]"
    return "  \(name): { machine: KeyedAutomaton, key: id\(end), "
      + "parameters: { start: \"\(start)\", steps: [\(list)] } }\n"
  }

  private static func at(_ place: String) -> StateCondition {
    StateCondition(["at": ["place": .string(place)]])
  }

  private static func never(_ name: String, _ states: [String: StateCondition]) -> ExploredProperty
  {
    ExploredProperty(name: name, demand: .never, states: StateCombination(states))
  }

  /// Explores a topology with symmetries, and without them. Checks that both searches find the same.
  private static func explore(
    _ text: String, _ section: ExploreSection,
    _ change: (inout ExplorationSettings) -> Void = { _ in }
  ) async throws -> (reduced: ExplorationReport, full: ExplorationReport) {
    let full = try await ExplorationFixture.topology(text, section, change)
    let reduced = try await ExplorationFixture.topology(text, section) {
      $0.isReduced = true
      change(&$0)
    }
    #expect(reduced.codes == full.codes)
    #expect(reduced.verdict.degree == full.verdict.degree)
    return (reduced, full)
  }

  @Test(
    "A full search visits all combinations of the instances' states, including absent instances")
  func product() async throws {
    var section = ExplorationFixture.outside(["n": ["x", "y"]])
    section.effectEvents = ["n": ["work": EffectPattern([])]]
    for (count, states) in [(1, 3), (2, 9), (3, 27)] {
      section.instanceCountsByNode = ["n": count]
      let report = try await ExplorationFixture.topology(
        "nodes:\n" + Self.keyed("n", ["0 x 1", "1 y 2"]), section)
      // Not created, at 1, at 2. The initial state is left in the step that enters it.
      #expect(report.totals.stateCount == states)
      #expect(report.findings(.unreachableState).count == 2)
    }
  }

  private static let counter =
    "nodes:\n" + keyed("n", ["0 x sending"])
    + ExplorationFixture.automaton("counter", "0", ["0 y 1"])
    + "pipes:\n  - { from: n, when: sending, to: counter, send: y }\n"

  @Test("An error that needs two instances is found with two keys, and not with one key")
  func twoKeys() async throws {
    var section = ExplorationFixture.outside(["n": ["x"]])
    section.effectEvents = ["n": ["work": EffectPattern([])]]
    section.instanceCountsByNode = ["n": 1]
    let one = try await Self.explore(Self.counter, section)
    #expect(one.reduced.findings(.deadLetter).isEmpty)
    section.instanceCountsByNode = [:]
    let two = try await Self.explore(Self.counter, section)
    for report in [two.reduced, two.full] {
      let finding = try #require(report.findings(.deadLetter).first)
      #expect(finding.scenario?.steps.count == 4)
      #expect(report.findings(.deadLetter).count == 1)
    }
  }

  private static let pair =
    "nodes:\n" + keyed("left", ["0 x 1"]) + keyed("right", ["0 y 1"])

  private static var pairSection: ExploreSection {
    var section = ExplorationFixture.outside(["left": ["x"], "right": ["y"]])
    section.effectEvents = [
      "left": ["work": EffectPattern([])], "right": ["work": EffectPattern([])],
    ]
    return section
  }

  @Test("A property can name instances with the same key or with different keys")
  func sameOrDifferent() async throws {
    // The right instance starts only after the left instance with the same key.
    let text =
      "nodes:\n" + Self.keyed("left", ["0 x sending", "sending z 2"])
      + Self.keyed("right", ["0 y 1"])
      + "pipes:\n  - { from: left, when: sending, to: right, send: { y: { id: $key } } }\n"
    var section = ExplorationFixture.outside(["left": ["x", "z"]])
    section.effectEvents = [
      "left": ["work": EffectPattern([])], "right": ["work": EffectPattern([])],
    ]
    section.properties = [
      Self.never("same", ["left[a]": Self.at("2"), "right[a]": Self.at("1")]),
      Self.never("different", ["left[a]": Self.at("2"), "right[b]": Self.at("1")]),
      Self.never("both", ["right[a]": Self.at("1"), "right[b]": Self.at("1")]),
      Self.never("nowhere", ["left[a]": Self.at("2"), "right[b]": Self.at("3")]),
    ]
    let expected = ["same": 3, "different": 4, "both": 4, "nowhere": nil]
    for (name, steps) in expected {
      let found = try await Self.explore(text, section) { $0.properties = [name] }
      for report in [found.reduced, found.full] {
        #expect(report.findings(.violatedProperty).first?.scenario?.steps.count == steps, "\(name)")
        #expect(report.findings.count == (steps == nil ? 0 : 1))
      }
    }
  }

  @Test("A search with symmetries finds the shortest violation of a property that names two keys")
  func shortest() async throws {
    var section = Self.pairSection
    section.properties = [
      Self.never("apart", ["left[a]": Self.at("1"), "right[b]": Self.at("1")]),
      Self.never("second", ["right[b]": Self.at("1")]),
    ]
    for (name, steps) in ["apart": 2, "second": 1] {
      let found = try await Self.explore(Self.pair, section) { $0.properties = [name] }
      for report in [found.reduced, found.full] {
        #expect(report.findings(.violatedProperty).first?.scenario?.steps.count == steps)
      }
    }
  }

  @Test("A search finds an error that only one key causes, if the machine distinguishes the keys")
  func special() async throws {
    // Only the instance with the key 'a' sends.
    let text = "nodes:\n" + Self.keyed("n", ["0 x 1", "1 y 2", "1 y.a sending"])
    var section = ExplorationFixture.outside(["n": ["x", "y"]])
    section.effectEvents = ["n": ["work": EffectPattern([])]]
    section.properties = [Self.never("special", ["n[b]": "sending"])]
    let found = try await Self.explore(text, section) { $0.properties = ["special"] }
    for report in [found.reduced, found.full] {
      #expect(report.findings(.violatedProperty).first?.scenario?.steps.count == 2)
    }
  }

  @Test("A search finds an error that only one key causes, if another node distinguishes the keys")
  func distinguishing() async throws {
    // The sink refuses only the text 'b'.
    let text =
      "nodes:\n" + Self.keyed("n", ["0 x sending"])
      + ExplorationFixture.automaton("sink", "0", ["0 word.a 0"])
      + "pipes:\n  - { from: n, when: sending, to: sink, send: { word: { text: $key } } }\n"
    var section = ExplorationFixture.outside(["n": ["x"]])
    section.effectEvents = ["n": ["work": EffectPattern([])]]
    let found = try await Self.explore(text, section)
    #expect(found.reduced.findings(.deadLetter).count == 1)
  }

  @Test("An event that the initial state refuses creates no instance")
  func refused() async throws {
    let text =
      "nodes:\n" + ExplorationFixture.automaton("s", "0", ["0 x sending"])
      + Self.keyed("n", ["0 x 1", "1 y 2"])
      + "pipes:\n  - { from: s, when: sending, to: n, send: { y: { id: seven } } }\n"
    var section = ExplorationFixture.outside(["s": ["x"], "n": ["x"]])
    section.effectEvents = ["n": ["work": EffectPattern([])]]
    section.properties = [Self.never("created", ["n[seven]": Self.at("2")])]
    let report = try await Self.explore(text, section).reduced
    let deadLetter = try #require(report.findings(.deadLetter).first)
    guard case .deadLetter(_, let node, _, let state, "noTransition") = deadLetter.kind else {
      Issue.record("\(deadLetter.kind)")
      return
    }
    #expect(node == "n[seven]")
    #expect(state == ["at": ["place": "0"]])
    #expect(deadLetter.scenario?.expectedStates["n[seven]"] == nil)
    // The key is named, so the property is about this key only.
    #expect(report.findings(.violatedProperty).first?.scenario?.steps.count == 3)
  }

  @Test("An instance in a final state refuses events, and does not count as a deadlock")
  func final() async throws {
    var section = ExplorationFixture.outside(["n": ["x", "y"]])
    section.effectEvents = ["n": ["work": EffectPattern([])]]
    let steps = ["0 x sending", "sending y 1"]
    let open = try await Self.explore("nodes:\n" + Self.keyed("n", steps), section)
    #expect(open.reduced.findings(.deadlock).count == 1)
    let ended = try await Self.explore(
      "nodes:\n" + Self.keyed("n", steps, final: ["sending"]), section)
    #expect(ended.reduced.findings(.deadlock).isEmpty)
    #expect(ended.full.totals.stateCount == 4)
    #expect(
      ended.reduced.verdict.remarks.contains(
        .instances(node: "n", keys: ["a", "b"], keep: .seconds(7 * 86_400))))
    #expect(ended.reduced.verdict.wording(findings: 0).contains("for up to 2 keys of 'n'"))
  }

  @Test("An effect of an instance sends its event to the same instance")
  func effects() async throws {
    let text = "nodes:\n" + Self.keyed("n", ["0 x working", "working done 1"])
    var section = ExplorationFixture.outside(["n": ["x"]])
    section.effectEvents = ["n": ["work": EffectPattern([EventPattern("done")])]]
    section.properties = [Self.never("two", ["n[a]": Self.at("1"), "n[b]": Self.at("1")])]
    let report = try await Self.explore(text, section).full
    #expect(report.totals.stateCount == 9)
    #expect(report.findings(.violatedProperty).first?.scenario?.steps.count == 4)
    section.effectEvents = ["n": ["work": EffectPattern([EventPattern("found")])]]
    let found = try await Self.explore(
      "nodes:\n" + Self.keyed("n", ["0 x working", "working found 1"]), section)
    #expect(found.full.totals.stateCount == 9)
    #expect(found.full.verdict.remarks.contains(.effectKeys(node: "n", field: "id")))
  }

  @Test("Integer keys are searched as the numbers 1 and 2")
  func integers() async throws {
    var section = ExplorationFixture.outside(["n": ["number"]])
    section.effectEvents = ["n": ["work": EffectPattern([])]]
    section.properties = [Self.never("second", ["n[2]": Self.at("1")])]
    let text =
      "nodes:\n  n: { machine: KeyedAutomaton, key: place, "
      + "parameters: { steps: [\"0 number 1\"] } }\n"
    let found = try await Self.explore(text, section)
    #expect(found.full.totals.stateCount == 4)
    #expect(found.reduced.findings(.violatedProperty).first?.scenario?.steps.count == 1)
  }

  @Test("An event for a key outside the search makes the verdict incomplete")
  func unexplored() async throws {
    let text =
      "nodes:\n" + Self.keyed("left", ["0 x sending"]) + Self.keyed("right", ["0 y 1"])
      + "pipes:\n  - { from: left, when: sending, to: right, send: { y: { id: $key } } }\n"
    var section = ExplorationFixture.outside(["left": ["x"]])
    section.effectEvents = [
      "left": ["work": EffectPattern([])], "right": ["work": EffectPattern([])],
    ]
    section.instanceCountsByNode = ["left": 2, "right": 1]
    let found = try await Self.explore(text, section)
    #expect(found.reduced.verdict.degree == .incomplete)
    #expect(
      found.reduced.verdict.remarks.contains(.limit(.unexploredKey(node: "right", key: "b"))))
  }

  @Test("A property that names an instance outside the search causes an error")
  func unknownInstance() async throws {
    var section = Self.pairSection
    section.properties = [Self.never("third", ["left[c]": Self.at("1")])]
    await #expect(throws: TopologyErrors.self) {
      try await ExplorationFixture.topology(Self.pair, section)
    }
  }

  @Test(
    "An 'explore' section that confuses nodes and instances is rejected",
    arguments: [
      "properties: { p: { never: { left: sending } } }",
      "properties: { p: { never: { 'plain[a]': sending } } }",
      "keys: { plain: 2 }", "keys: { left: 0 }", "any: [left]",
    ])
  func rejected(_ explore: String) throws {
    let text =
      "topology: t\nprogram: TestNodes\n" + Self.pair
      + ExplorationFixture.automaton("plain", "0", []) + "explore: { \(explore) }\n"
    #expect(throws: TopologyErrors.self) {
      try TopologyReader.read(text: Array(text.utf8), file: "t.yaml")
    }
  }

  @Test("The shipped orders are searched completely and without findings")
  func orders() async throws {
    let loaded = try LoadedTopology.load(.file("topologies/orders.yaml"))
    for isReduced in [false, true] {
      let report = try await ExplorationFixture.file(
        "topologies/orders.yaml", loaded.topology.explore
      ) { $0.isReduced = isReduced }
      #expect(report.verdict.degree == .exact)
      #expect(report.findings.isEmpty)
      #expect(isReduced || report.totals.stateCount == 51)
    }
  }

  @Test("Scenarios of instances can be replayed from their files", arguments: [false, true])
  func replay(isReduced: Bool) async throws {
    let path = "/tmp/instances-\(UInt64.random(in: 0...UInt64.max)).yaml"
    defer { FileSystem.removeTree(path) }
    let text =
      "topology: replayed\nprogram: TestNodes\n" + Self.counter
      + "explore: { from_outside: { n: [x] }, gives: { n: { work: [] } } }\n"
    try FileSystem.replace(path, with: text.utf8)
    let loaded = try LoadedTopology.load(.file(path))
    let report = try await ExplorationFixture.file(path, loaded.topology.explore) {
      $0.isReduced = isReduced
    }
    #expect(report.codes.contains(.deadLetter))
    for finding in report.findings {
      guard var scenario = finding.scenario else { continue }
      scenario.name = "written"
      let written = Array(scenario.yaml.utf8)
      let read = try ScenarioFile.read(text: written, file: "written.yaml").scenario
      #expect(read.steps == scenario.steps)
      var replay = try ScenarioReplay(loaded)
      try replay.run(read)
    }
  }

  @Test("A replay finds the instance of a step by the key in the step's event")
  func replayByKey() async throws {
    let path = "/tmp/instances-\(UInt64.random(in: 0...UInt64.max)).yaml"
    defer { FileSystem.removeTree(path) }
    try FileSystem.replace(
      path, with: ("topology: replayed\nprogram: TestNodes\n" + Self.pair).utf8)
    let loaded = try LoadedTopology.load(.file(path))
    var scenario = Scenario(name: "written", topology: path)
    scenario.steps = [
      ScenarioStep(
        .takes(owner: "left", event: ["x": ["id": "a"]], from: .outside),
        .states(["left[a]": ["at": ["place": "1"]]]))
    ]
    scenario.expectedStates = ["left[a]": ["at": ["place": "1"]]]
    var replay = try ScenarioReplay(loaded)
    try replay.run(scenario)
    #expect(replay.states["left[b]"] == .null)
  }
}
