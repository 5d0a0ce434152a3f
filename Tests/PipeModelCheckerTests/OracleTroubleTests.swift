import PipeModelChecker
import PipeRuntime
import TestTraits
import Testing

@Suite("What is wrong with a step is a finding, and the search goes on", .stallLimit(.seconds(60)))
struct OracleTroubleTests {
  private static func fragile(_ events: [String], patience: Duration = .seconds(10)) async throws
    -> ExplorationReport
  {
    var section = Explored.outside(["node": events])
    section.fold = ["node": ["steps": 2]]
    section.gives = ["node": ["live": EffectPattern([])]]
    return try await Explored.topology(
      "nodes:\n  node: { machine: Fragile }\n", section, patience: patience)
  }

  @Test("a trap ends only the process that is asked")
  func trap() async throws {
    let report = try await Self.fragile(["touch", "trap"])
    let crash = try #require(report.findings(.crashingStep).first)
    guard case .crash(let node, let event, let state, let how) = crash.kind else {
      Issue.record("it is \(crash.kind)")
      return
    }
    #expect(node == "node")
    #expect(event == "trap")
    #expect(state == ["well": ["steps": 0]])
    #expect(how.contains("SIGABRT"))
    #expect(crash.scenario?.steps.last?.outcome == .processEnds)
    #expect(report.reached.states == 2)
  }

  @Test("a step that never returns is noticed, though it computes nothing")
  func hang() async throws {
    let report = try await Self.fragile(["touch", "hang"], patience: .seconds(3))
    #expect(report.codes.contains(.lateAnswer))
    #expect(report.reached.states == 2)
  }

  @Test("what a machine prints is not taken for an answer")
  func shout() async throws {
    let report = try await Self.fragile(["shout"])
    #expect(report.reached.states == 2)
    #expect(!report.codes.contains(.badAnswer))
  }

  @Test("another answer to the same question is told")
  func impure() async throws {
    let report = try await Explored.topology(
      "nodes:\n  node: { machine: Moody }\n", Explored.outside(["node": ["ask"]]))
    #expect(report.codes.contains(.impureStep))
  }

  @Test(
    "a step that is seldom not a function of state and event is told each time", arguments: 0..<6)
  func fickle(_: Int) async throws {
    let report = try await Explored.topology(
      "nodes:\n  n: { machine: Fickle }\n",
      ExploreSection(fromOutside: ["n": [EventPattern("flip", fields: ["n": .range(0...9)])]]))
    #expect(report.codes.contains(.impureStep))
    #expect(report.verdict.degree == .sampled)
  }

  @Test("an event that could not be asked is not refused, and makes the verdict incomplete")
  func unasked() async throws {
    let report = try await Explored.topology(
      "nodes:\n  lamp: { machine: Lamp }\n",
      ExploreSection(
        fromOutside: ["lamp": [EventPattern("light", fields: ["colour": .values(["blue"])])]]))
    #expect(report.verdict.degree == .incomplete)
    #expect(
      report.verdict.remarks.contains { remark in
        if case .limit(.unasked(node: "lamp", _, _)) = remark { true } else { false }
      })
    #expect(!report.codes.contains(.deadlock))
  }

  @Test("a node that grows is named with its field")
  func growth() async throws {
    var section = Explored.outside(["node": ["touch"]])
    section.gives = ["node": ["live": EffectPattern([])]]
    let report = try await Explored.topology(
      "nodes:\n  node: { machine: Fragile }\n", section
    ) { $0.nodeStateLimit = 50 }
    #expect(report.verdict.degree == .incomplete)
    #expect(
      report.verdict.remarks.contains(
        .limit(.nodeStates(node: "node", limit: 50, field: "well.steps", fold: "steps"))))
  }

  @Test("a fold that does not hold is told")
  func brokenFold() async throws {
    // The elevator's door counts persons, and takes no more than ten.
    var section = Explored.outside(["door": ["personsHaveEntered", "closeButtonWasPressed"]])
    section.values = ["door": ["personsHaveEntered": ["persons": .values([5])]]]
    section.fold = ["door": ["persons": 10]]
    let report = try await Explored.topology(
      "nodes:\n  door: { machine: ElevatorDoor, program: nodes }\n", section)
    #expect(report.codes.contains(.brokenFold))
  }
}
