import PipeModelChecker
import PipeRuntime
import TestTraits
import Testing

@Suite("The reduced search of a topology", .stallLimit(.seconds(60)))
struct ReducedSearchTests {
  private static func automata(_ count: Int) -> String {
    "nodes:\n"
      + (0..<count).map {
        ExplorationFixture.automaton("a\($0)", "0", ["0 x 1", "1 y 2", "2 z 0"])
      }.joined()
  }

  private static func outside(_ count: Int, _ properties: [ExploredProperty] = []) -> ExploreSection
  {
    var section = ExplorationFixture.outside(
      Dictionary(uniqueKeysWithValues: (0..<count).map { ("a\($0)", ["x", "y", "z"]) }))
    section.properties = properties
    return section
  }

  private static func at(_ place: String) -> StateCondition {
    StateCondition(["at": ["place": .string(place)]])
  }

  @Test("A reduced search of independent nodes takes fewer steps and has the same findings")
  func independent() async throws {
    let whole = try await ExplorationFixture.topology(Self.automata(5), Self.outside(5))
    #expect(whole.totals.stateCount == 243)
    #expect(!whole.isReduced)
    let reduced = try await ExplorationFixture.topology(Self.automata(5), Self.outside(5)) {
      $0.isReduced = true
    }
    #expect(reduced.isReduced)
    #expect(reduced.totals.stepCount < 800)
    #expect(whole.totals.stepCount == 1215)
    #expect(reduced.verdict.degree == whole.verdict.degree)
    #expect(reduced.findings.map(\.kind) == whole.findings.map(\.kind))
  }

  @Test(
    "A reduced search finds orders in which an event that is not known yet is sent first",
    arguments: ["out", nil])
  func unsent(port: String?) async throws {
    // If the receiver steps before the sender has sent, it does not accept 'y' any more. The events
    // of a port are known only after they were sent, which takes two steps here. A pipe that may
    // hold more is checked all the time.
    var section = ExplorationFixture.outside(["receiver": ["x"], "sender": ["z"]])
    section.properties = [
      ExploredProperty(
        name: "early", demand: .never, states: StateCombination(["receiver": "south"]))
    ]
    for name in ["receiver", "sender"] {
      section.effectEvents[name] = ["hurry": EffectPattern([]), "dawdle": EffectPattern([])]
    }
    let sends = port == nil ? "" : "\"east y\""
    let sender = port.map { "sender.\($0)" } ?? "sender, when: east, send: y"
    for properties in [[], ["early"]] {
      let report = try await ExplorationFixture.topology(
        """
        nodes:
          receiver: { machine: Rambler, parameters: { steps: ["home x north", "home y south"] } }
          sender: { machine: Rambler, parameters: { steps: ["home z north", "north z east"], sends: [\(sends)] } }
        pipes:
          - { from: \(sender), to: receiver.in, capacity: 1 }

        """, section
      ) {
        $0.isReduced = true
        $0.properties = properties
      }
      let violation = try #require(report.findings(.violatedProperty).first)
      #expect(violation.scenario?.steps.count == 3)
    }
  }

  @Test("A reduced search of independent nodes finds a violated property at the same depth")
  func distance() async throws {
    let property = ExploredProperty(
      name: "both", demand: .never,
      states: StateCombination(["a1": Self.at("2"), "a4": Self.at("1")]))
    for isReduced in [false, true] {
      let report = try await ExplorationFixture.topology(
        Self.automata(6), Self.outside(6, [property])
      ) {
        $0.isReduced = isReduced
        $0.properties = ["both"]
      }
      #expect(report.findings(.violatedProperty).first?.scenario?.steps.count == 3)
      #expect(report.findings.count == 1)
      #expect(report.verdict.remarks.contains(.limit(.firstViolation)))
    }
  }

  @Test("A search of one property reports no other findings, and can continue after a violation")
  func property() async throws {
    let properties = [
      ExploredProperty(
        name: "bad", demand: .never, states: StateCombination(["a0": Self.at("1")])),
      ExploredProperty(
        name: "good", demand: .never, states: StateCombination(["a0": Self.at("7")])),
      ExploredProperty(
        name: "far", demand: .never, states: StateCombination(["a1": Self.at("2")])),
    ]
    func search(_ names: [String], all: Bool = false) async throws -> ExplorationReport {
      try await ExplorationFixture.topology(
        Self.automata(2) + "pipes:\n  - { from: a0, when: at, to: a1, send: x }\n",
        Self.outside(2, properties)
      ) {
        $0.properties = names
        $0.continuesAfterViolation = all
      }
    }
    let good = try await search(["good"])
    #expect(good.findings.isEmpty)
    let bad = try await search(["good", "bad", "far"])
    #expect(bad.findings.count == 1)
    #expect(bad.verdict.degree == .incomplete)
    let all = try await search(["good", "bad", "far"], all: true)
    #expect(all.findings(.violatedProperty).count == 2)
    #expect(all.findings.count == 2)
    #expect(all.verdict.degree == .exact)
  }

  @Test("Findings with the same cause are reported once, with their count")
  func groups() async throws {
    var section = ExplorationFixture.outside(["a": ["x"]])
    section.fromOutside?["b"] = [
      EventPattern("word", fields: ["text": .values((0..<30).map { .string("w\($0)") })])
    ]
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + ExplorationFixture.automaton("a", "0", ["0 x sending", "sending x 0"])
        + ExplorationFixture.automaton("b", "0", (0..<30).map { "0 word.w\($0) p\($0)" })
        + "pipes:\n  - { from: a, when: sending, to: b, send: y }\n", section)
    let deadLetters = report.findings(.deadLetter)
    #expect(deadLetters.count == 1)
    #expect(deadLetters.first?.similarCount == 30)
    #expect(deadLetters.first?.message.hasSuffix("; similar findings: 30") == true)
  }

  @Test("Deadlocks with the same state labels are reported once, and the others are counted")
  func halts() async throws {
    let places = (0..<30).map { "p\($0)" }
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + ExplorationFixture.automaton("a", "0", places.map { "0 word.\($0) \($0)" }),
      ExploreSection(fromOutside: [
        "a": [EventPattern("word", fields: ["text": .values(places.map { .string($0) })])]
      ]))
    let deadlocks = report.findings(.deadlock)
    #expect(deadlocks.count == 1)
    #expect(deadlocks.first?.similarCount == 29)
    #expect(!report.verdict.remarks.contains { $0.code == .unshown })
  }
}
