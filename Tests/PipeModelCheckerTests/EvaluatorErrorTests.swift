import PipeModelChecker
import PipeRuntime
import TestTraits
import Testing

@Suite("Errors of evaluated steps", .stallLimit(.seconds(60)))
struct EvaluatorErrorTests {
  private static func fragile(_ events: [String], answerTimeout: Duration = .seconds(10))
    async throws
    -> ExplorationReport
  {
    var section = ExplorationFixture.outside(["node": events])
    section.foldModuli = ["node": ["steps": 2]]
    section.effectEvents = ["node": ["live": EffectPattern([])]]
    return try await ExplorationFixture.topology(
      "nodes:\n  node: { machine: Fragile }\n", section, answerTimeout: answerTimeout)
  }

  @Test("A trap ends only the evaluating process and is reported as a crashing step")
  func trap() async throws {
    let report = try await Self.fragile(["touch", "trap"])
    let crash = try #require(report.findings(.crashingStep).first)
    guard case .crash(let node, let event, let state, let exitDescription) = crash.kind else {
      Issue.record("it is \(crash.kind)")
      return
    }
    #expect(node == "node")
    #expect(event == "trap")
    #expect(state == ["well": ["steps": 0]])
    #expect(exitDescription.contains("SIGABRT"))
    #expect(crash.scenario?.steps.last?.outcome == .processEnds)
    #expect(report.totals.stateCount == 2)
  }

  @Test("A step that never returns is detected although it uses no CPU time")
  func hang() async throws {
    let report = try await Self.fragile(["touch", "hang"], answerTimeout: .seconds(3))
    #expect(report.codes.contains(.lateAnswer))
    #expect(report.totals.stateCount == 2)
  }

  @Test("Text that a machine prints is not mistaken for an answer")
  func shout() async throws {
    let report = try await Self.fragile(["shout"])
    #expect(report.totals.stateCount == 2)
    #expect(!report.codes.contains(.badAnswer))
  }

  @Test("Different results for the same state and event are reported")
  func impure() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n  node: { machine: Moody }\n", ExplorationFixture.outside(["node": ["ask"]]))
    #expect(report.codes.contains(.impureStep))
  }

  @Test(
    "Every search detects a step whose result differs for the same state and event, even if rarely",
    arguments: 0..<6)
  func fickle(_: Int) async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n  n: { machine: Fickle }\n",
      ExploreSection(fromOutside: ["n": [EventPattern("flip", fields: ["n": .range(0...9)])]]))
    #expect(report.codes.contains(.impureStep))
    #expect(report.verdict.degree == .sampled)
  }

  @Test("An event that cannot be evaluated makes the verdict incomplete, and is not refused")
  func notEvaluated() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n  lamp: { machine: Lamp }\n",
      ExploreSection(
        fromOutside: ["lamp": [EventPattern("light", fields: ["colour": .values(["blue"])])]]))
    #expect(report.verdict.degree == .incomplete)
    #expect(
      report.verdict.remarks.contains { remark in
        if case .limit(.notEvaluated(node: "lamp", _, _)) = remark { true } else { false }
      })
    #expect(!report.codes.contains(.deadlock))
  }

  @Test("If a node's states grow without bound, the verdict names the field that grows")
  func growth() async throws {
    var section = ExplorationFixture.outside(["node": ["touch"]])
    section.effectEvents = ["node": ["live": EffectPattern([])]]
    let report = try await ExplorationFixture.topology(
      "nodes:\n  node: { machine: Fragile }\n", section
    ) { $0.nodeStateLimit = 50 }
    #expect(report.verdict.degree == .incomplete)
    #expect(
      report.verdict.remarks.contains(
        .limit(.nodeStates(node: "node", limit: 50, field: "well.steps", fold: "steps"))))
  }

  @Test("A 'fold' declaration that merges states with different steps is reported as broken")
  func brokenFold() async throws {
    // The elevator's door counts persons, and accepts at most ten.
    var section = ExplorationFixture.outside([
      "door": ["personsHaveEntered", "closeButtonWasPressed"]
    ])
    section.values = ["door": ["personsHaveEntered": ["persons": .values([5])]]]
    section.foldModuli = ["door": ["persons": 10]]
    let report = try await ExplorationFixture.topology(
      "nodes:\n  door: { machine: ElevatorDoor, program: nodes }\n", section)
    #expect(report.codes.contains(.brokenFold))
  }
}
