import PipeModelChecker
import PipeRuntime
import TestTraits
import Testing

@Suite("Compositions with known answers through real programs", .stallLimit(.seconds(60)))
struct KnownAnswerTests {
  @Test("Interlock: two nodes take one synchronized event, and then end")
  func interlock() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + ExplorationFixture.automaton("p", "p0", ["p0 x p1"])
        + ExplorationFixture.automaton("q", "q0", ["q0 y q1", "q1 x q2"])
        + "composites:\n  both: { components: [p, q], synchronize: { x: [p, q] } }\n",
      ExplorationFixture.outside(["both": ["x"], "q": ["y"]]))
    #expect(report.totals.stateCount == 3)
    #expect(report.totals.stepCount == 2)
    let deadlock = try #require(report.findings(.deadlock).first)
    #expect(report.findings(.deadlock).count == 1)
    let scenario = try #require(deadlock.scenario)
    #expect(scenario.steps.count == 2)
    #expect(scenario.expectedStates["p"] == ["at": ["place": "p1"]])
    #expect(
      scenario.steps[1].action == .takes(owner: "both", event: "x", from: .outside))
    #expect(
      scenario.steps[1].outcome
        == .states(["p": ["at": ["place": "p1"]], "q": ["at": ["place": "q2"]]]))
    #expect(report.verdict.degree == .exact)
  }

  @Test("Left-right: two nodes take their own events, and 'sync' together")
  func leftRight() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + ExplorationFixture.automaton("l", "l", ["l x l1", "l1 sync l"])
        + ExplorationFixture.automaton("r", "r", ["r y r1", "r1 sync r"])
        + "composites:\n  both: { components: [l, r], synchronize: { sync: [l, r] } }\n",
      ExplorationFixture.outside(["both": ["sync"], "l": ["x"], "r": ["y"]]))
    #expect(report.totals.stateCount == 4)
    #expect(report.totals.stepCount == 5)
    #expect(report.findings(.deadlock).isEmpty)
  }

  @Test("Bystander: a node that does not take part in an event does not block the event")
  func bystander() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + ExplorationFixture.automaton("a", "0", ["0 sync 1"])
        + ExplorationFixture.automaton("b", "0", ["0 sync 1"])
        + ExplorationFixture.automaton("c", "0", ["0 z 0"])
        + "composites:\n  all: { components: [a, b, c], synchronize: { sync: [a, b] } }\n",
      ExplorationFixture.outside(["all": ["sync"], "c": ["z"]]))
    #expect(report.totals.stateCount == 2)
    #expect(report.totals.stepCount == 3)
    #expect(report.findings(.deadlock).isEmpty)
  }

  @Test("The payload of an event decides how the vending machine continues")
  func vending() async throws {
    let user = [
      "idle tau idle", "idle showAvailable gonnaBuy", "gonnaBuy insert paying",
      "paying showPurchasable.true gonnaBuy", "paying showPurchasable.false choosing",
      "choosing choose waiting", "waiting drop idle",
    ]
    let machine = [
      "idle showAvailable idle", "idle insert coins", "coins showPurchasable.true waitingChoice",
      "coins showPurchasable.false waitingChoice", "waitingChoice insert coins",
      "waitingChoice choose dropping", "dropping drop idle",
    ]
    let shared = ["showAvailable", "insert", "showPurchasable", "choose", "drop"]
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + ExplorationFixture.automaton("user", "idle", user)
        + ExplorationFixture.automaton("machine", "idle", machine)
        + "composites:\n  sale: { components: [user, machine], synchronize: {"
        + shared.map { " \($0): [user, machine]" }.joined(separator: ",") + " } }\n",
      ExplorationFixture.outside(["sale": shared, "user": ["tau"]]))
    #expect(report.totals.stateCount == 6)
    #expect(report.totals.stepCount == 8)
    #expect(report.findings(.deadlock).isEmpty)
    #expect(report.verdict.degree == .exact)
  }

  @Test(
    "Philosophers that take the left fork first have one deadlock",
    arguments: [(3, 35, 66), (5, 392, 1_250)])
  func leftFirst(_ count: Int, _ states: Int, _ steps: Int) async throws {
    var nodes = "nodes:\n"
    var composites = "composites:\n"
    var events: [String: [String]] = [:]
    for place in 0..<count {
      nodes += ExplorationFixture.automaton(
        "p\(place)", "0",
        [
          "0 getLeft 1", "1 getRight 2", "2 eat 3", "3 putLeft 4", "4 putRight 0",
        ])
      nodes += ExplorationFixture.automaton(
        "f\(place)", "free",
        ["free getLeft l", "l putLeft free", "free getRight r", "r putRight free"])
      let (own, left, right) = ("p\(place)", "f\(place)", "f\((place + 1) % count)")
      composites += """
          seat\(place):
            components: [\(own), \(left), \(right)]
            synchronize:
              getLeft: [\(own), \(left)]
              putLeft: [\(own), \(left)]
              getRight: [\(own), \(right)]
              putRight: [\(own), \(right)]

        """
      events["seat\(place)"] = ["getLeft", "putLeft", "getRight", "putRight"]
      events[own] = ["eat"]
    }
    let report = try await ExplorationFixture.topology(
      nodes + composites, ExplorationFixture.outside(events))
    #expect(report.totals.stateCount == states)
    #expect(report.totals.stepCount == steps)
    #expect(report.findings(.deadlock).count == 1)
    #expect(report.findings(.deadlock).first?.scenario?.steps.count == count)
  }
}
