import PipeModelChecker
import PipeRuntime
import TestTraits
import Testing

@Suite("Steps through pipes", .stallLimit(.seconds(60)))
struct PipeStepTests {
  @Test("An effect produces no event after the entry into another state has cancelled the effect")
  func cancelled() async throws {
    var section = ExplorationFixture.outside([
      "door": ["closeButtonWasPressed", "openButtonWasPressed"]
    ])
    section.effectEvents = ["door": ["close": EffectPattern([EventPattern("doorHasLocked")])]]
    let report = try await ExplorationFixture.topology(
      "nodes:\n  door: { machine: ElevatorDoor, program: nodes }\n", section)
    // Open, closing with its effect, and closed.
    #expect(report.totals.stateCount == 3)
    #expect(report.totals.stepCount == 4)
  }

  private static let two =
    "nodes:\n" + ExplorationFixture.automaton("a", "0", ["0 x sending", "sending x 1"])
    + ExplorationFixture.automaton("b", "0", ["0 z 1", "1 y 2"])

  @Test("A refused event is a dead letter, reported once with its path")
  func deadLetter() async throws {
    let report = try await ExplorationFixture.topology(
      Self.two + "pipes:\n  - { from: a, when: sending, to: b, send: y }\n",
      ExplorationFixture.outside(["a": ["x"]]))
    let deadLetters = report.findings(.deadLetter)
    let deadLetter = try #require(deadLetters.first)
    #expect(deadLetters.count == 1)
    #expect(
      deadLetter.kind
        == .deadLetter(
          pipe: "a:sending->b:y", node: "b", event: "y", state: ["at": ["place": "0"]],
          reason: "noTransition"))
    #expect(deadLetter.path == ["pipes", "0"])
    #expect(
      deadLetter.scenario?.steps.map(\.action) == [
        .takes(owner: "a", event: "x", from: .outside),
        .takes(owner: "b", event: "y", from: .pipe("a:sending->b:y")),
      ])
    #expect(deadLetter.scenario?.steps.last?.outcome == .refused(node: "b", reason: "noTransition"))
  }

  @Test("A postponed event is accepted when the receiver reaches a state that accepts the event")
  func postponed() async throws {
    let report = try await ExplorationFixture.topology(
      Self.two
        + "pipes:\n  - { from: a, when: sending, to: b, send: y, on_refused: postpone }\n",
      ExplorationFixture.outside(["a": ["x"], "b": ["z"]]))
    #expect(report.codes.contains(.deadlock))
    #expect(!report.codes.contains(.deadLetter))
    for deadlock in report.findings(.deadlock) {
      #expect(deadlock.scenario?.expectedStates["b"] == ["at": ["place": "2"]])
    }
  }

  private static let words =
    "nodes:\n" + ExplorationFixture.automaton("a", "p", ["p x q"])
    + ExplorationFixture.automaton("b", "0", ["0 word.q 1", "1 word.p 2"])

  @Test("An event can overtake an earlier postponed event, and both events are accepted")
  func passing() async throws {
    let report = try await ExplorationFixture.topology(
      Self.words
        + """
        pipes:
          - { from: a, when: at, to: b, send: { word: { text: $place } }, on_refused: postpone }

        """, ExplorationFixture.outside(["a": ["x"]]))
    #expect(report.codes.isDisjoint(with: [.deadLetter, .fatalRefusal]))
    let deadlocks = report.findings(.deadlock)
    #expect(deadlocks.count == 1)
    #expect(deadlocks.first?.scenario?.expectedStates["b"] == ["at": ["place": "2"]])
    #expect(deadlocks.first?.scenario?.expectedPipeContents.values.first == [])
    // p waits, q is behind it, 1 with p waiting, and 2.
    #expect(report.totals.stateCount == 4)
  }

  @Test("A topology is stuck if its waiting events are accepted only after an event from outside")
  func stuck() async throws {
    let report = try await ExplorationFixture.topology(
      Self.words
        + """
        pipes:
          - { from: a, when: at, to: b, send: { word: { text: $place } }, on_refused: postpone }

        """, ExploreSection(fromOutside: ["a": [EventPattern("x")]]))
    #expect(
      report.findings(.stuck).first?.kind
        == .stuck(pipes: ["a:at->b:word"]))
  }

  @Test("A refusal in a pipe with 'on_refused: fail' is a finding")
  func failing() async throws {
    let report = try await ExplorationFixture.topology(
      Self.two + "pipes:\n  - { from: a, when: sending, to: b, send: y, on_refused: fail }\n",
      ExplorationFixture.outside(["a": ["x"]]))
    #expect(report.codes.contains(.fatalRefusal))
    #expect(!report.codes.contains(.deadLetter))
  }

  @Test("A cycle of full pipes is reported with its nodes")
  func circle() async throws {
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + ExplorationFixture.automaton("a", "sending", ["sending x sending"])
        + ExplorationFixture.automaton("b", "sending", ["sending x sending"])
          + """
          pipes:
            - { from: a, when: sending, to: b, send: x, capacity: 1 }
            - { from: b, when: sending, to: a, send: x, capacity: 1 }

          """)
    #expect(report.totals.stateCount == 1)
    let finding = try #require(report.findings.first { $0.code == .fullPipes })
    #expect(finding.kind == .fullPipes(["a", "b"]))
    #expect(finding.message.contains("each of nodes 'a', 'b' waits for capacity"))
  }

  @Test("A step needs free capacity in a pipe only at its start, and can then overfill the pipe")
  func overshoot() async throws {
    // One step fills both pipes of the sender, and only the first of them must have capacity
    // before.
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + ExplorationFixture.automaton("a", "0", ["0 x sending", "sending x sending"])
        + ExplorationFixture.automaton("b", "0", [])
          + """
          pipes:
            - { from: a, when: sending, to: b, send: y, on_refused: postpone, capacity: 2 }

          """, ExplorationFixture.outside(["a": ["x"]]))
    // No, one or two events wait.
    #expect(report.totals.stateCount == 3)
  }
}
