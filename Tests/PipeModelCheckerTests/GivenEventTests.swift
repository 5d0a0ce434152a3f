import PipeRuntime
import TestTraits
import Testing

@Suite("Events that effects produce in a search", .stallLimit(.seconds(60)))
struct GivenEventTests {
  /// A node that goes north on `x`, works there, and returns home by the event of its effect.
  private static let rambler = """
    nodes:
      a:
        machine: Rambler
        parameters: { steps: [home x north, north soon home], works: [north hurry] }
    """

  private static func section(_ gives: EffectPattern?) -> ExploreSection {
    ExploreSection(
      fromOutside: ["a": [EventPattern("x")]],
      effectEvents: gives.map { ["a": ["hurry": $0, "dawdle": EffectPattern([])]] } ?? [:])
  }

  @Test(
    "If an effect's events are not declared, the search assumes events, and the verdict lists them")
  func assumed() async throws {
    let report = try await ExplorationFixture.topology(Self.rambler, Self.section(nil))
    #expect(report.verdict.degree == .sampled)
    let assumed = report.verdict.remarks.compactMap { remark in
      if case .assumedGives("a", "hurry", let events) = remark { events } else { nil }
    }
    #expect(assumed == [["late", "soon", "tick", "y", "z"]])
  }

  @Test("A node continues when its effect produces the declared event")
  func given() async throws {
    let report = try await ExplorationFixture.topology(
      Self.rambler, Self.section(EffectPattern([EventPattern("soon")])))
    #expect(report.verdict.degree == .exact)
    #expect(report.totals.stateCount == 2)
    #expect(report.findings(.deadlock).isEmpty)
  }

  @Test("A node can be stuck if its effect can end without an event")
  func ended() async throws {
    let report = try await ExplorationFixture.topology(
      Self.rambler, Self.section(EffectPattern([EventPattern("soon")], mayEnd: true)))
    #expect(report.verdict.degree == .exact)
    // At home, working, and north after the work has ended.
    #expect(report.totals.stateCount == 3)
    #expect(report.totals.stepCount == 3)
    let found = try #require(report.findings(.deadlock).first)
    #expect(
      found.scenario?.steps.map(\.action) == [
        .takes(owner: "a", event: "x", from: .outside), .ends(node: "a", effect: "hurry"),
      ])
  }

  @Test("A property can name the projected states of a composite")
  func composite() async throws {
    var section = ExploreSection(
      fromOutside: [
        "lift": [EventPattern("open"), EventPattern("go", fields: ["floor": .range(0...4)])],
        "door": [EventPattern("close")],
      ])
    section.properties = [
      ExploredProperty(
        name: "empty", demand: .never, states: StateCombination(["lift": "boarding"])),
      ExploredProperty(
        name: "safe", demand: .never, states: StateCombination(["lift": "unsafe"])),
      ExploredProperty(
        name: "waits", demand: .alwaysPossible, states: StateCombination(["lift": "waiting"])),
    ]
    let report = try await ExplorationFixture.file("topologies/lift.yaml", section)
    let violated = report.findings(.violatedProperty).map(\.kind)
    #expect(
      violated == [.violated(property: "empty", .never)], "\(report.findings)")
  }
}
