import PipeModelChecker
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import Soak
import TestTraits
import Testing

@Suite("Recorded runs compared with the searched states", .timed)
struct ExploredRunTests {
  /// Searches a topology in which node `a` sends two events at a time to node `b`.
  private static func search() async throws -> (ExploredTopology, [PipeSpecification]) {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let file = try directory.write(
      """
      topology: two
      program: \(try BinaryLocator.find("TestNodes"))
      nodes:
        a: { machine: Rambler, parameters: { steps: [home x north, north y home], sends: [north z z] } }
        b: { machine: Rambler, parameters: { steps: [home x north, north z home] } }
      pipes:
        - { from: a.out, to: b.in, name: p, capacity: 1, on_refused: postpone }
      explore: { from_outside: { a: [x, y], b: [x] } }
      """, to: "two.yaml")
    let loaded = try LoadedTopology.load(.file(file))
    var settings = ExplorationSettings()
    settings.threadCount = 1
    let explored = try await TopologyExplorer(loaded, loaded.topology.explore, settings).explored()
    return (explored, loaded.pipes)
  }

  private static func item(
    _ node: String, _ event: JSONValue, _ state: JSONValue?,
    from origin: RunTrace.Item.Origin = .outside, sends numbers: ClosedRange<UInt64>? = nil
  ) -> RunTrace.Item {
    RunTrace.Item(
      node: node, version: 1, event: event, origin: origin, state: state,
      sent: numbers.map { $0.map { .init(pipe: "p", stream: 1, number: $0, event: "z") } } ?? [])
  }

  @Test("A run is accepted, and its steps are counted, if the search has found all of its steps")
  func path() async throws {
    let (explored, pipes) = try await Self.search()
    var path = ExploredPath(explored, pipes)
    try path.replay([
      Self.item("a", "x", "north", sends: 1...2), Self.item("b", "x", "north"),
      Self.item("b", "z", "home", from: .pipe("p", number: 1)), Self.item("b", "x", "north"),
      Self.item("b", "z", "home", from: .pipe("p", number: 2)), Self.item("a", "y", "home"),
    ])
    #expect(path.count(of: "p") == 0)
    #expect(path.eventCounts.steps == 6)
    #expect(path.eventCounts.overshooting == 1)
    #expect(path.eventCounts.missing.count == 3)
  }

  @Test(
    "A step that the search did not find is reported with the steps that preceded it",
    arguments: [
      // The errors: a state that the step does not lead to, capacity that the pipe lacks, an event
      // that was not sent, and an event that is not the first in its pipe.
      ([item("a", "x", "home", sends: 1...2)], "no step of the search is this one: a takes x"),
      (
        [item("a", "x", "north", sends: 1...2), item("a", "y", "home")],
        "a takes y (outside), is home, with 'p': 1 z, 2 z; before that:\n    a takes x"
      ),
      ([item("b", "z", "home", from: .pipe("p", number: 1))], "with empty pipes"),
      ([item("a", "x", "north", sends: 1...1)], "no step of the search is this one"),
      (
        [
          item("a", "x", "north", sends: 1...2), item("b", "x", "north"),
          item("b", "z", "home", from: .pipe("p", number: 3)),
        ], "the pipe does not hold what is taken"
      ),
      ([item("b", "x", nil, from: .pipe("p", number: 1))], "b refuses x"),
    ] as [([RunTrace.Item], String)])
  func otherwise(line: [RunTrace.Item], expectedText: String) async throws {
    let (explored, pipes) = try await Self.search()
    var path = ExploredPath(explored, pipes)
    let failure = #expect(throws: ExploredPath.Failure.self) { try path.replay(line) }
    #expect(failure?.description.contains(expectedText) == true, "\(String(describing: failure))")
  }

  @Test("A seed determines a random plan, and the plan's topology file is read back unchanged")
  func plans() throws {
    for seed in UInt64(0)..<40 {
      var (one, other) = (SplitMix64(seed: seed), SplitMix64(seed: seed))
      let plan = RamblingPlan(using: &one)
      #expect(plan == RamblingPlan(using: &other))
      let topology = plan.topology(name: "plan", program: "TestNodes", durability: .volatile)
      let read = try TopologyReader.read(text: topology.yaml.utf8, file: "plan.yaml")
      #expect(read.topology.pipes == plan.pipes)
      #expect(read.topology.explore == topology.explore)
    }
  }

  /// Returns the findings without the parts that depend on the order of the steps.
  private static func findings(_ report: ExplorationReport) -> Set<String> {
    Set(
      report.findings.map { finding in
        switch finding.code {
        case .deadlock, .stuck, .fullPipes:
          // If only some findings are shown, the selection depends on the order of the search.
          guard !report.verdict.remarks.contains(where: { $0.code == .unshown }) else {
            return finding.code.rawValue
          }
          let end = finding.scenario?.expectedStates.sorted { $0.key < $1.key }
          return "\(finding.code) \(finding.scenario?.steps.count ?? -1) \(end ?? [])"
        default: return "\(finding.kind)"
        }
      })
  }

  @Test("Random topologies have the same findings with and without reduction")
  func reduction() async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    var (whole, reduced) = (0, 0)
    for seed in UInt64(0)..<25 {
      var generator = SplitMix64(seed: seed)
      let plan = RamblingPlan(using: &generator)
      let topology = plan.topology(
        name: "plan", program: try BinaryLocator.find("TestNodes"), durability: .volatile)
      let file = try directory.write(topology.yaml, to: "plan\(seed).yaml")
      let loaded = try LoadedTopology.load(.file(file))
      var reports: [ExplorationReport] = []
      for isReduced in [false, true] {
        var settings = ExplorationSettings()
        settings.isReduced = isReduced
        settings.threadCount = isReduced ? 1 + Int(seed % 2) : 1
        let explorer = TopologyExplorer(loaded, loaded.topology.explore, settings)
        reports.append(try await explorer.explore())
      }
      #expect(reports[1].verdict.degree == reports[0].verdict.degree, "seed \(seed)")
      #expect(
        Self.findings(reports[1]) == Self.findings(reports[0]), "seed \(seed): \(topology.yaml)")
      whole += reports[0].totals.stateCount
      reduced += reports[1].totals.stateCount
    }
    #expect(reduced <= whole)
  }

  private static func soak(
    _ durability: String, seed: UInt64 = .random(in: 1...999_999)
  ) async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let program = try tool.start(
      program: try BinaryLocator.find("soak"),
      ["--of", "explored", "--topologies", "4", "--seed", "\(seed)", "--durability", durability])
    let result = try await tool.result(of: program, within: .seconds(180))
    // The output shows the seed.
    #expect(result.code == 0, "\(result)")
    #expect(result.output.contains("verdict: as searched"), "\(result)")
    #expect(!result.output.contains("4 topologies, 0 steps"), "\(result)")
  }

  @Test("Runs of random topologies take only steps that the search has found")
  func volatile() async throws { try await Self.soak("none") }

  @Test(
    "Runs of random topologies with journals take only steps that the search has found",
    .enabled(if: RecordedNodes.arePossible))
  func recorded() async throws { try await Self.soak("process") }

  // With this seed, each of two nodes waits for space in its pipe to the other node, and one of the
  // pipes is full of postponed events.
  @Test(
    "Nodes that wait for each other do not continue while postponed events fill a pipe",
    .enabled(if: RecordedNodes.arePossible))
  func postponed() async throws { try await Self.soak("process", seed: 384_993) }
}
