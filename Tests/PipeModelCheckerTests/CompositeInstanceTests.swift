import PipeModelChecker
import PipeRuntime
import PipeSupervision
import TestSupport
import TestTraits
import Testing

@Suite("The search of composites with a key", .stallLimit(.seconds(120)))
struct CompositeInstanceTests {
  private static func keyed(_ name: String, _ steps: [String]) -> String {
    let list = steps.map { "\"\($0)\"" }.joined(separator: ", ")
    return "  \(name): { machine: KeyedAutomaton, key: id, parameters: { steps: [\(list)] } }\n"
  }

  private static let composite =
    "composites:\n  both: { key: id, components: [left, right], synchronize: { x: [left, right] } }\n"

  private static func at(_ place: String) -> StateCondition {
    StateCondition(["at": ["place": .string(place)]])
  }

  private static func never(_ name: String, _ states: [String: StateCondition]) -> ExploredProperty
  {
    ExploredProperty(name: name, demand: .never, states: StateCombination(states))
  }

  private static func section(
    _ outside: [String: [String]], _ properties: [ExploredProperty] = []
  ) -> ExploreSection {
    var section = ExplorationFixture.outside(outside)
    section.effectEvents = [
      "left": ["work": EffectPattern([])], "right": ["work": EffectPattern([])],
    ]
    section.properties = properties
    return section
  }

  /// Explores a topology in a reduced and in a full search. Checks that both find the same, and that
  /// each counterexample can be replayed.
  private static func explore(
    _ text: String, _ section: ExploreSection, property: String? = nil
  ) async throws -> (reduced: ExplorationReport, full: ExplorationReport) {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/explored.yaml"
    try FileSystem.replace(path, with: ("topology: explored\nprogram: TestNodes\n" + text).utf8)
    let loaded = try LoadedTopology.load(.file(path))
    var reports: [ExplorationReport] = []
    for isReduced in [true, false] {
      var settings = ExplorationSettings()
      (settings.threadCount, settings.isReduced) = (1, isReduced)
      settings.properties = property.map { [$0] } ?? []
      let report = try await TopologyExplorer(loaded, section, settings).explore()
      for finding in report.findings {
        guard let scenario = finding.scenario else { continue }
        let written = Array(scenario.yaml.utf8)
        let read = try ScenarioFile.read(text: written, file: "written.yaml").scenario
        #expect(read.steps == scenario.steps)
        var replay = try ScenarioReplay(loaded, section: section)
        try replay.run(read)
      }
      reports.append(report)
    }
    #expect(reports[0].codes == reports[1].codes, "\(text)")
    #expect(reports[0].verdict.degree == reports[1].verdict.degree, "\(text)")
    for code in [ExplorationFinding.Code.deadlock, .violatedProperty] {
      let lengths = reports.map { $0.findings(code).first?.scenario?.steps.count }
      #expect(lengths[0] == lengths[1], "\(code): \(text)")
    }
    return (reports[0], reports[1])
  }

  @Test("A synchronized event moves all participants with its key, or none")
  func product() async throws {
    // For each key: neither instance, the right one at 1, and both after the synchronized event.
    let text =
      "nodes:\n" + Self.keyed("left", ["0 x 1"]) + Self.keyed("right", ["0 y 1", "1 x 2"])
      + Self.composite
    var section = Self.section(
      ["both": ["x"], "right": ["y"]],
      [Self.never("torn", ["left[a]": Self.at("1"), "right[a]": Self.at("1")])])
    for (count, states) in [(1, 3), (2, 9), (3, 27)] {
      // All nodes of a composite have the same keys.
      section.instanceCountsByNode = ["left": count]
      let found = try await Self.explore(text, section)
      #expect(found.full.totals.stateCount == states)
      #expect(found.full.findings(.violatedProperty).isEmpty)
      #expect(found.full.verdict.degree == .exact)
      #expect(
        found.reduced.verdict.wording(findings: 1).contains(
          "for up to \(count) key\(count == 1 ? "" : "s") of 'left' and 'right'"))
    }
  }

  @Test("A violation that involves one key or two keys is found by a shortest path")
  func sameOrDifferent() async throws {
    // One event comes through a pipe, for the key 'seven' only. Clients send it for other keys.
    let text =
      "nodes:\n" + Self.keyed("left", ["0 x 1"])
      + Self.keyed("right", ["0 y 1", "1 x 2", "0 x 3"]) + Self.composite
    let properties = [
      // The right instance with the same key has moved, too.
      Self.never("within", ["left[a]": Self.at("1"), "right[a]": Self.at("1")]),
      Self.never("between", ["left[a]": Self.at("1"), "right[b]": Self.at("1")]),
      Self.never("same", ["left[a]": Self.at("1"), "right[a]": Self.at("3")]),
      Self.never("both", ["left[a]": Self.at("1"), "left[b]": Self.at("1")]),
    ]
    let section = Self.section(["both": ["x"], "right": ["y"]], properties)
    for (name, steps) in ["within": nil, "between": 2, "same": 1, "both": 2] as [String: Int?] {
      let found = try await Self.explore(text, section, property: name)
      for report in [found.reduced, found.full] {
        #expect(
          report.findings(.violatedProperty).first?.scenario?.steps.count == steps, "\(name)")
      }
    }
    var one = section
    one.instanceCountsByNode = ["right": 1]
    one.properties.removeAll { $0.states.states.keys.contains { $0.hasSuffix("[b]") } }
    let found = try await Self.explore(text, one)
    #expect(found.full.findings(.violatedProperty).count == 1)
  }

  @Test("A pipe to the composite moves only the instances with the event's key")
  func pipe() async throws {
    let text =
      "nodes:\n" + ExplorationFixture.automaton("s", "0", ["0 x sending"])
      + Self.keyed("left", ["0 x 1"]) + Self.keyed("right", ["0 y 1", "1 x 2"])
      + Self.composite
      + "pipes:\n  - { from: s, when: sending, to: both, send: { x: { id: seven } } }\n"
    let properties = [
      Self.never("same", ["left[seven]": Self.at("1"), "right[seven]": Self.at("2")]),
      Self.never("different", ["left[seven]": Self.at("1"), "right[a]": Self.at("2")]),
    ]
    let section = Self.section(["s": ["x"], "right": ["y"]], properties)
    let found = try await Self.explore(text, section)
    for report in [found.reduced, found.full] {
      let violations = report.findings(.violatedProperty)
      #expect(violations.count == 1)
      #expect(violations.first?.scenario?.steps.count == 3)
      // The event comes before the right instance accepts it, and creates no left instance.
      let refused = try #require(report.findings(.deadLetter).first)
      guard case .deadLetter(_, "right[seven]", _, _, "noTransition") = refused.kind else {
        Issue.record("\(refused.kind)")
        continue
      }
      #expect(refused.scenario?.expectedStates["left[seven]"] == nil)
    }
  }

  @Test("A synchronized event creates an instance even if the instance ignores the event")
  func ignored() async throws {
    let text =
      "nodes:\n" + Self.keyed("left", ["0 x 1"]) + Self.keyed("right", ["0 x ignore"])
      + Self.composite
    let section = Self.section(
      ["both": ["x"]], [Self.never("created", ["right[a]": Self.at("0")])])
    let found = try await Self.explore(text, section, property: "created")
    #expect(found.full.findings(.violatedProperty).first?.scenario?.steps.count == 1)
  }

  @Test("An event overtakes an earlier event in its pipe if the earlier event's instance is locked")
  func overtaking() async throws {
    // The source sends 'y' for 'one' before 'y' for 'two', through the same pipe. The left instance
    // 'one' is still at 5, after the synchronized event, when 'two' has arrived.
    let text =
      "nodes:\n" + ExplorationFixture.automaton("s", "0", ["0 y sending"])
      + Self.keyed("source", ["0 z sending"]) + Self.keyed("left", ["0 x 5", "5 y 6", "0 y 7"])
      + Self.keyed("right", ["0 x 1"]) + Self.composite
        + """
        pipes:
          - { from: source, when: sending, to: s, send: y }
          - { from: s, when: sending, to: source, send: { z: { id: two } } }
          - { from: source, when: sending, to: left, send: { y: { id: $key } } }

        """
    var section = Self.section(
      [:], [Self.never("late", ["left[one]": Self.at("5"), "left[two]": Self.at("7")])])
    section.effectEvents["source"] = ["work": EffectPattern([])]
    section.fromOutside = [
      "both": [EventPattern("x", fields: ["id": .values(["one"])])],
      "source": [EventPattern("z", fields: ["id": .values(["one"])])],
    ]
    section.values = ["left": ["y": ["id": .values(["one", "two"])]]]
    let found = try await Self.explore(text, section, property: "late")
    #expect(found.full.findings(.violatedProperty).first?.scenario?.steps.count == 5)
  }

  @Test("After a commit, an event for another instance can overtake a slower participant's event")
  func delayed() async throws {
    // After the commit for 'one', the left participant causes the event for 'two' of the right node
    // before the right participant takes its step.
    let text =
      "nodes:\n" + Self.keyed("left", ["0 x sending"])
      + Self.keyed("right", ["0 x sending", "0 y sending"])
      + ExplorationFixture.automaton("middle", "0", ["0 word.one sending"])
      + ExplorationFixture.automaton("sink", "0", ["0 word.two 1", "1 word.one 2"])
      + Self.composite
        + """
        pipes:
          - { from: left, when: sending, to: middle, send: { word: { text: $key } } }
          - { from: middle, when: sending, to: right, send: { y: { id: two } } }
          - { from: right, when: sending, to: sink, send: { word: { text: $key } } }

        """
    var section = Self.section([:], [Self.never("late", ["sink": Self.at("2")])])
    section.fromOutside = ["both": [EventPattern("x", fields: ["id": .values(["one"])])]]
    let found = try await Self.explore(text, section, property: "late")
    #expect(found.full.findings(.violatedProperty).first?.scenario?.steps.count == 5)
  }

  @Test("A key that is not searched at a participant makes the verdict incomplete")
  func unexplored() async throws {
    let text =
      "nodes:\n" + Self.keyed("source", ["0 y sending"]) + Self.keyed("left", ["0 x 1"])
      + Self.keyed("right", ["0 x 1"]) + Self.composite
      + "pipes:\n  - { from: source, when: sending, to: both, send: { x: { id: $key } } }\n"
    var section = Self.section(["source": ["y"]])
    section.effectEvents["source"] = ["work": EffectPattern([])]
    section.instanceCountsByNode = ["source": 2, "left": 1]
    let found = try await Self.explore(text, section)
    #expect(found.full.verdict.degree == .incomplete)
    #expect(
      found.full.verdict.remarks.contains(.limit(.unexploredKey(node: "left", key: "b"))))
  }

  @Test("A full pipe of a participant lowers the verdict to 'sampled'")
  func full() async throws {
    let text =
      "nodes:\n" + Self.keyed("left", ["0 x sending"]) + Self.keyed("right", ["0 x 1"])
      + ExplorationFixture.automaton("sink", "0", ["0 word.a 0", "0 word.b 0"]) + Self.composite
      + "pipes:\n  - { from: left, when: sending, to: sink, capacity: CAPACITY, "
      + "send: { word: { text: $key } } }\n"
    let section = Self.section(["both": ["x"]])
    for (capacity, degree) in [("1", ExplorationVerdict.Degree.sampled), ("3", .exact)] {
      let found = try await Self.explore(
        text.replacing("CAPACITY", with: capacity), section)
      #expect(found.full.verdict.degree == degree)
      #expect(
        found.full.verdict.remarks.contains { $0.code == .fullWhileLocked } == (degree == .sampled))
    }
  }

  @Test(
    "An 'explore' section that lets an effect of an instance give a synchronized event is rejected")
  func effects() async throws {
    let text =
      "nodes:\n" + Self.keyed("left", ["0 x working"]) + Self.keyed("right", ["0 x 1"])
      + Self.composite
    var section = Self.section(["both": ["x"]])
    section.effectEvents["left"] = ["work": EffectPattern([EventPattern("x")])]
    await #expect(throws: TopologyErrors.self) {
      try await ExplorationFixture.topology(text, section)
    }
  }

  // MARK: Random topologies

  @Test(
    "In random topologies, a reduced search has the same findings as a full search",
    arguments: 0..<24)
  func random(_ seed: Int) async throws {
    let net = KeyedNet(UInt64(seed))
    var random = Seeded(state: UInt64(seed) &+ 1_000)
    let places = ["1", "2", "3"]
    var section = net.section
    let keys = net.keys
    section.properties = ["p", "q"].map { name in
      let second = keys[name == "p" ? 0 : 1]
      return Self.never(
        name,
        [
          "left[\(keys[0])]": Self.at(places.randomElement(using: &random) ?? "1"),
          "right[\(second)]": Self.at(places.randomElement(using: &random) ?? "1"),
        ])
    }
    let found = try await Self.explore(net.text, section)
    #expect(found.reduced.totals.stateCount <= found.full.totals.stateCount)
  }

  @Test(
    "Each state of the two-phase protocol without a transaction in progress is found by the search",
    arguments: 0..<24)
  func protocolStates(_ seed: Int) async throws {
    let net = KeyedNet(UInt64(seed) &+ 500)
    let directory = try TemporaryDirectory()
    let path = directory.path + "/explored.yaml"
    try FileSystem.replace(path, with: ("topology: explored\nprogram: TestNodes\n" + net.text).utf8)
    let loaded = try LoadedTopology.load(.file(path))
    var settings = ExplorationSettings()
    settings.threadCount = 1
    let explored = try await TopologyExplorer(loaded, net.section, settings).explored()
    var met: Set<ExploredTopology.State> = [explored.initialState]
    var next = Array(met)
    while let state = next.popLast() {
      for step in explored.steps(from: state) where met.insert(step.target).inserted {
        next.append(step.target)
      }
    }
    let found = Set(
      met.map { state in
        KeyedNet.Rest(
          places: net.names.map { Self.place(explored.state(of: $0, in: state)) },
          queues: net.pipes.map { pipe in
            explored.contents(of: pipe.name, in: state).map(\.text).sorted()
          })
      })
    for rest in net.restStates() {
      #expect(found.contains(rest), "\(rest) \(net.text)")
      if !found.contains(rest) { return }
    }
  }

  private static func place(_ state: JSONValue?) -> String {
    guard let state, state != .null else { return "" }
    return state.caseMembers?["place"]?.string ?? state.caseName ?? ""
  }
}
