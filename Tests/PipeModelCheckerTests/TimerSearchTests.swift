import PipeDiagrams
import PipeModelChecker
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing

@Suite("Timers in a search", .stallLimit(.seconds(120)))
struct TimerSearchTests {
  private static let one = "nodes: { r: { machine: Reservation } }\n"
  private static let outside = ["r": ["hold", "release"]]

  @Test("A search fires only the earliest timer of a state, and the verdict is exact")
  func first() async throws {
    let report = try await ExplorationFixture.topology(
      Self.one, ExplorationFixture.outside(Self.outside))
    #expect(report.verdict.degree == .exact)
    // Free, held, reminded and lapsed. The later timer of 'held' never fires.
    #expect(report.totals.stateCount == 4)
    #expect(report.totals.stepCount == 5)
    let found = try #require(report.findings(.deadlock).first)
    #expect(
      found.scenario?.steps.map(\.action) == [
        .takes(owner: "r", event: "hold", from: .outside), .fires(node: "r", after: "20 s"),
        .fires(node: "r", after: "5 s"),
      ])
  }

  @Test("Timers of different nodes fire in any order")
  func anyOrder() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes: { q: { machine: Reservation }, r: { machine: Reservation } }\n",
      ExplorationFixture.outside(["q": ["hold", "release"], "r": ["hold", "release"]]))
    #expect(report.verdict.degree == .exact)
    #expect(report.totals.stateCount == 16)
    #expect(report.totals.stepCount == 40)
  }

  @Test("A state with a running timer is not a deadlock, and the timer's step sends events")
  func sends() async throws {
    var section = ExplorationFixture.outside(["r": ["hold"]])
    section.allowedEndStates = [
      StateCombination(["r": "lapsed", "sink": StateCondition(["at": ["place": "full"]])])
    ]
    let report = try await ExplorationFixture.topology(
      """
      nodes:
        r: { machine: Reservation }
      \(ExplorationFixture.automaton("sink", "empty", ["empty z full"]))
      pipes:
        - { from: r, when: lapsed, to: sink, send: z }

      """, section)
    #expect(report.verdict.degree == .exact)
    #expect(report.codes.isDisjoint(with: [.deadlock, .stuck, .deadLetter]), "\(report.findings)")
  }

  @Test("A scenario with timers replays as written, and fails with another duration")
  func replayed() async throws {
    let path = "/tmp/timers-\(UInt64.random(in: 0...UInt64.max)).yaml"
    defer { FileSystem.removeTree(path) }
    try FileSystem.replace(path, with: ("topology: timers\nprogram: TestNodes\n" + Self.one).utf8)
    let loaded = try LoadedTopology.load(.file(path))
    let report = try await TopologyExplorer(
      loaded, ExplorationFixture.outside(Self.outside), ExplorationSettings()
    ).explore()
    var scenario = try #require(report.findings(.deadlock).first?.scenario)
    scenario.name = "written"
    let read = try ScenarioFile.read(text: Array(scenario.yaml.utf8), file: "written.yaml").scenario
    #expect(read == scenario)
    var replay = try ScenarioReplay(loaded)
    try replay.run(read)
    #expect(replay.states["r"] == "lapsed")

    scenario.steps[1].action = .fires(node: "r", after: "30 s")
    var failing = try ScenarioReplay(loaded)
    #expect {
      try failing.run(scenario)
    } throws: { error in
      "\(error)".contains("fires after 20 s, expected 30 s")
    }
    scenario.steps.remove(at: 0)
    var early = try ScenarioReplay(loaded)
    #expect {
      try early.run(scenario)
    } throws: { error in
      "\(error)".contains("node 'r' has no timer that can fire in state 'free'")
    }
  }

  @Test("A state chart shows timers with their durations")
  func chart() throws {
    let path = "/tmp/timers-\(UInt64.random(in: 0...UInt64.max)).yaml"
    defer { FileSystem.removeTree(path) }
    try FileSystem.replace(path, with: ("topology: timers\nprogram: TestNodes\n" + Self.one).utf8)
    var limits = StateChartSearch.Limits()
    limits.answerTimeout = .seconds(600)
    limits.searchTimeLimit = .seconds(600)
    let chart = try StateChartSearch(.load(.file(path)), limits: limits).chart(of: "r")
    let lines = chart.transitions.map { "\($0.source) \($0.event) \($0.target ?? "?")" }.sorted()
    #expect(
      lines == [
        "free hold held", "held after 20 s reminded", "held release free",
        "reminded after 5 s lapsed", "reminded release free",
      ])
    #expect(chart.transitions.allSatisfy { $0.uncertaintyReason == nil })
    #expect(chart.finalStates == ["lapsed"])
  }
}
