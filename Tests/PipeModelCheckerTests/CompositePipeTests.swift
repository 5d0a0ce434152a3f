import PipeModelChecker
import PipeRuntime
import TestTraits
import Testing

@Suite("Pipes into and from composites", .stallLimit(.seconds(60)))
struct CompositePipeTests {
  private static let nodes =
    "nodes:\n" + ExplorationFixture.automaton("l", "0", ["0 sync 1", "1 x 0"])
    + ExplorationFixture.automaton("r", "0", ["0 sync 1", "1 y 0"])
    + ExplorationFixture.automaton("sink", "0", ["0 z 1"])

  @Test("A composite's rule fires when the last of the rule's nodes enters its required state")
  func rule() async throws {
    let report = try await ExplorationFixture.topology(
      Self.nodes
        + """
        composites:
          both: { components: [l, r], synchronize: { sync: [l, r] } }
        pipes:
          - { from: both, when: { l: at, r: at }, to: sink, send: z, capacity: 1 }

        """, ExplorationFixture.outside(["both": ["sync"]]))
    // Both nodes are in the states at the start, and again after sync. The second z is refused.
    let deadLetter = try #require(report.findings(.deadLetter).first)
    #expect(report.findings(.deadLetter).count == 1)
    #expect(
      deadLetter.scenario?.steps.map(\.action).last
        == .takes(owner: "sink", event: "z", from: .pipe("both:l=at,r=at->sink:z")))
  }

  @Test(
    "The verdict is exact, whether a node's step causes a step of another node or not",
    arguments: [
      #"{ from: l, when: at, to: r, send: "y" }"#, #"{ from: r, when: at, to: sink, send: z }"#,
      #"{ from: both, when: { l: at, r: at }, to: l, send: x }"#,
    ])
  func causes(pipe: String) async throws {
    let report = try await ExplorationFixture.topology(
      Self.nodes
        + """
        composites:
          both: { components: [l, r], synchronize: { sync: [l, r] } }
        pipes:
          - { from: both, when: { l: at, r: at }, to: sink, send: z, name: rule }
          - \(pipe)

        """, ExplorationFixture.outside(["both": ["sync"], "l": ["x"], "r": ["y"]]))
    #expect(report.verdict.degree == .exact, "\(report.verdict)")
  }

  @Test(
    "A pipe of capacity one from a node to its own composite is refused",
    arguments: [("l", 1, false), ("l", 2, true), ("s", 1, true)])
  func ownComposite(sender: String, capacity: Int, isAllowed: Bool) async throws {
    let text =
      Self.nodes + ExplorationFixture.automaton("s", "sending", ["sending x sending"])
        + """
        composites:
          both: { components: [l, r], synchronize: { sync: [l, r] } }
        pipes:
          - { from: \(sender), when: at, to: both, send: sync, capacity: \(capacity), name: own }

        """
    do {
      _ = try await ExplorationFixture.topology(
        text.replacing("from: s, when: at", with: "from: s, when: sending"))
      #expect(isAllowed)
    } catch {
      #expect(!isAllowed, "\(error)")
      #expect(
        "\(error)".contains(
          "pipe 'own': 'capacity' cannot be 1: node 'l' participates in event "
            + "'sync'"),
        "\(error)")
    }
  }

  @Test("An event that a component of a composite refuses is a dead letter of the composite's pipe")
  func refused() async throws {
    let report = try await ExplorationFixture.topology(
      Self.nodes + ExplorationFixture.automaton("s", "sending", ["sending x sending"])
        + """
        composites:
          both: { components: [l, r], synchronize: { sync: [l, r] } }
        pipes:
          - { from: s, when: sending, to: both, send: sync }

        """, ExplorationFixture.outside(["s": ["x"]]))
    // The dead letter is the second event.
    let deadLetter = try #require(report.findings(.deadLetter).first)
    guard case .deadLetter(_, let node, let event, let state, _) = deadLetter.kind else {
      Issue.record("it is \(deadLetter.kind)")
      return
    }
    #expect(["l", "r"].contains(node))
    #expect(event == "sync")
    #expect(state == ["at": ["place": "1"]])
  }

  @Test("A postponed event of a composite waits until all participants accept it")
  func awaited() async throws {
    let report = try await ExplorationFixture.topology(
      Self.nodes + ExplorationFixture.automaton("s", "sending", ["sending x sending"])
        + """
        composites:
          both: { components: [l, r], synchronize: { sync: [l, r] } }
        pipes:
          - { from: s, when: sending, to: both, send: sync, on_refused: postpone }

        """, ExplorationFixture.outside(["s": ["x"], "l": ["x"], "r": ["y"]]))
    #expect(!report.codes.contains(.deadLetter))
    #expect(!report.codes.contains(.deadlock))
  }
}
