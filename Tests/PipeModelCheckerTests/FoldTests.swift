import PipeModelChecker
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing

@Suite(
  "Folds, which merge states that differ only in a counter",
  .stallLimit(.seconds(60)))
struct FoldTests {
  private static func wheel(modulus: Int, fold: Int) async throws -> ExplorationReport {
    var section = ExplorationFixture.outside(["wheel": ["tick"]])
    section.foldModuli = ["wheel": ["n": fold]]
    return try await ExplorationFixture.topology(
      "nodes:\n  wheel: { machine: Wheel, parameters: { modulus: \(modulus) } }\n", section)
  }

  @Test("A fold whose modulus divides the counter's modulus is proved exact")
  func proved() async throws {
    let report = try await Self.wheel(modulus: 12, fold: 4)
    #expect(report.findings.isEmpty)
    #expect(report.verdict.remarks == [.folded(node: "wheel", field: "n", modulo: 4, .all(8))])
    #expect(report.verdict.degree == .exact)
    #expect(report.totals.stateCount == 4)
  }

  @Test("A fold is reported as broken even if the merged states differ only after some rounds")
  func laterRound() async throws {
    let report = try await Self.wheel(modulus: 10, fold: 4)
    #expect(report.codes.contains(.brokenFold))
    #expect(report.verdict.degree != .exact)
  }

  @Test("A fold is reported as broken if it hides a guard, even far from the initial state")
  func guarded() async throws {
    var section = ExplorationFixture.outside([
      "door": ["closeButtonWasPressed", "openButtonWasPressed"]
    ])
    section.fromOutside?["door"]?.append(
      EventPattern("personsHaveEntered", fields: ["persons": .values([1])]))
    section.foldModuli = ["door": ["persons": 4]]
    let report = try await ExplorationFixture.topology(
      "nodes:\n  door: { machine: ElevatorDoor, program: nodes, parameters: { capacity: 10 } }\n",
      section)
    #expect(report.codes.contains(.brokenFold))
    #expect(report.verdict.degree != .exact)
  }

  @Test("The fold of an endless counter is an assumption, and the verdict lists the assumption")
  func endless() async throws {
    var section = ExplorationFixture.outside(["node": ["touch"]])
    section.foldModuli = ["node": ["steps": 2]]
    section.effectEvents = ["node": ["live": EffectPattern([])]]
    let report = try await ExplorationFixture.topology(
      "nodes:\n  node: { machine: Fragile }\n", section)
    #expect(!report.codes.contains(.brokenFold))
    #expect(report.verdict.degree == .sampled)
    #expect(report.totals.stateCount == 2)
  }

  /// Reads and checks a topology with this text as its section `explore`.
  private static func load(_ nodes: String, _ section: [String]) throws {
    let path = "/tmp/hints-\(UInt64.random(in: 0...UInt64.max)).yaml"
    try FileSystem.replace(
      path,
      with: ("topology: hints\nprogram: TestNodes\n" + nodes + "explore:\n"
        + section.map { "  \($0)\n" }.joined()).utf8)
    defer { FileSystem.removeTree(path) }
    _ = try LoadedTopology.load(.file(path))
  }

  @Test(
    "A topology file accepts each declaration that a verdict suggests, without changes",
    arguments: [
      "nodes:\n  n: { machine: Fragile }\n", "nodes:\n  n: { machine: Automaton }\n",
      "nodes:\n  n: { machine: Fickle }\n",
      "nodes:\n  n: { machine: ElevatorDoor, program: nodes }\n",
      "nodes:\n  n: { machine: Lamp }\n", "nodes:\n  n: { machine: QuizResults, program: nodes }\n",
    ])
  func hints(_ nodes: String) async throws {
    for limit in [10, 10_000] {
      let report = try await ExplorationFixture.topology(nodes, ExploreSection()) {
        $0.nodeStateLimit = limit
        $0.timeLimit = .seconds(2)
      }
      let hints = report.verdict.remarks.compactMap { remark -> String? in
        let message = remark.message
        guard let start = message.range(of: "declare '")?.upperBound,
          let end = message.range(of: "}'")?.lowerBound
        else { return nil }
        return message[start..<end] + "}"
      }
      for hint in hints { try Self.load(nodes, [hint]) }
    }
  }

  @Test("A verdict does not suggest a fold for a growing field that cannot be folded")
  func unfoldable() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n  n: { machine: Moody }\n", ExplorationFixture.outside(["n": ["ask"]])
    ) { $0.nodeStateLimit = 1 }
    for remark in report.verdict.remarks { #expect(!remark.message.contains("running effects:")) }
  }
}
