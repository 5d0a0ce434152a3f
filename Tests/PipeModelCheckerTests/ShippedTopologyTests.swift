import PipeModelChecker
import PipeRuntime
import TestTraits
import Testing

@Suite("The topologies of the examples", .stallLimit(.seconds(60)))
struct ShippedTopologyTests {
  @Test("Philosophers whose effects produce synchronized events can always eat again")
  func philosophers() async throws {
    var section = ExploreSection(fromOutside: [:])
    for place in 1...5 {
      section.effectEvents["philosopher\(place)"] = [
        "think": EffectPattern([EventPattern("take")]),
        "eat": EffectPattern([EventPattern("release")]),
      ]
    }
    let report = try await ExplorationFixture.file("topologies/philosophers.yaml", section)
    #expect(report.totals.stateCount == 11)
    #expect(report.totals.stepCount == 30)
    #expect(report.findings.isEmpty)
    #expect(report.verdict.degree == .exact)
  }

  @Test("A search uses the machines' declarations of effects if the file has no declarations")
  func declared() async throws {
    let report = try await ExplorationFixture.file("topologies/philosophers.yaml", nil)
    #expect(report.totals.stateCount == 11)
    #expect(report.totals.stepCount == 30)
    #expect(report.verdict.degree == .exact)
  }

  @Test("The lift's door is never open while the motor moves")
  func lift() async throws {
    var section = ExploreSection(
      fromOutside: [
        "lift": [
          EventPattern("open"), EventPattern("go", fields: ["floor": .range(0...4)]),
          EventPattern("emergencyStop"), EventPattern("reset"),
        ]
      ])
    section.properties = [
      ExploredProperty(
        name: "shut", demand: .never,
        states: StateCombination(["door": "open", "motor": "moving"]))
    ]
    let report = try await ExplorationFixture.file("topologies/lift.yaml", section)
    #expect(report.findings(.violatedProperty).isEmpty)
    #expect(report.findings(.deadlock).isEmpty)
    #expect(report.totals.stateCount > 5)
  }
}
