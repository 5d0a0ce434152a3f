import PipeModelChecker
import PipeRuntime
import TestTraits
import Testing

@Suite("Internal transitions and ignored events in searches", .stallLimit(.seconds(60)))
struct InternalTransitionTests {
  private static func receiver(_ steps: String...) -> String {
    "nodes:\n" + ExplorationFixture.automaton("a", "0", ["0 x sending", "sending x 1"])
      + ExplorationFixture.automaton("b", "0", steps)
  }

  private static func pipe(_ onRefused: String = "record") -> String {
    "pipes:\n  - { from: a, when: sending, to: b, send: y, on_refused: \(onRefused) }\n"
  }

  @Test("A rule does not fire on an internal transition")
  func rules() async throws {
    // 'a' is in 'sending' after the first event, and stays there.
    let topology =
      "nodes:\n"
      + ExplorationFixture.automaton("a", "0", ["0 x sending", "sending z stay.sending"])
      + ExplorationFixture.automaton("b", "0", ["0 y 1", "1 y 2"])
    var section = ExplorationFixture.outside(["a": ["x", "z"]])
    section.properties = [
      ExploredProperty(
        name: "twice", demand: .never,
        states: StateCombination(["b": StateCondition(["at": ["place": "2"]])]))
    ]
    let report = try await ExplorationFixture.topology(topology + Self.pipe(), section)
    #expect(!report.codes.contains(.violatedProperty))
    // An entry into the same state does fire the rule.
    let entering = topology.replacing("stay.sending", with: "sending")
    let other = try await ExplorationFixture.topology(entering + Self.pipe(), section)
    #expect(other.codes.contains(.violatedProperty))
  }

  @Test("An ignored event is removed from its pipe, and does not become a dead letter")
  func ignored() async throws {
    let report = try await ExplorationFixture.topology(
      Self.receiver("0 y ignore") + Self.pipe(), ExplorationFixture.outside(["a": ["x"]]))
    #expect(report.codes.subtracting([.unreachableState]) == [.deadlock])
    #expect(
      report.findings(.deadlock).allSatisfy {
        $0.scenario?.expectedPipeContents.values.allSatisfy(\.isEmpty) == true
      })
  }

  @Test("A deadlock is found even if the receiver ignores an event from outside")
  func deadlock() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + ExplorationFixture.automaton("a", "0", ["0 x 1", "1 x ignore"]),
      ExplorationFixture.outside(["a": ["x"]]))
    #expect(report.codes.subtracting([.unreachableState]) == [.deadlock])
    #expect(report.totals.stepCount == 1)
  }

  @Test("An event that 'on_refused: ignore' drops causes a warning, which 'allow' can silence")
  func dropped() async throws {
    var section = ExplorationFixture.outside(["a": ["x"]])
    let topology = Self.receiver("0 z 1", "1 y 2") + Self.pipe("ignore")
    let report = try await ExplorationFixture.topology(topology, section)
    let finding = try #require(report.findings(.ignoredEvent).first)
    #expect(
      finding.kind
        == .ignoredEvent(
          pipe: "a:sending->b:y", node: "b", event: "y", state: ["at": ["place": "0"]],
          reason: "noTransition"))
    #expect(finding.code.isWarning)
    #expect(finding.scenario?.expectedPipeContents.values.allSatisfy(\.isEmpty) == true)
    #expect(!report.codes.contains(.deadLetter))
    let entry = AllowedFinding(.ignoredEvent, node: "b", event: "y", reason: "r")
    section.allow = [entry]
    let allowed = try await ExplorationFixture.topology(topology, section)
    #expect(!allowed.codes.contains(.ignoredEvent))
    #expect(allowed.verdict.remarks.contains(.allowed(entry, count: 1)))
  }
}
