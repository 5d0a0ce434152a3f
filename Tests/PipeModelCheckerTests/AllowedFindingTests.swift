import PipeRuntime
import TestTraits
import Testing

@Suite("Findings that a file allows", .stallLimit(.seconds(60)))
struct AllowedFindingTests {
  private static let topology =
    "nodes:\n" + ExplorationFixture.automaton("a", "0", ["0 x sending", "sending x 1"])
    + ExplorationFixture.automaton("b", "0", ["0 z 1", "1 y 2"])
    + "pipes:\n  - { from: a, when: sending, to: b, send: y }\n"

  private static func explore(_ allowed: AllowedFinding...) async throws -> ExplorationReport {
    var section = ExplorationFixture.outside(["a": ["x"]])
    section.allow = allowed
    return try await ExplorationFixture.topology(topology, section)
  }

  @Test("An allowed finding is matched by code, node, pipe, event and state")
  func matching() async throws {
    #expect(try await Self.explore().codes.contains(.deadLetter))
    for entry in [
      AllowedFinding(.deadLetter, reason: "r"), AllowedFinding(.deadLetter, node: "b", reason: "r"),
      AllowedFinding(.deadLetter, pipe: "a:sending->b:y", event: "y", reason: "r"),
      AllowedFinding(.deadLetter, state: "at", reason: "r"),
    ] {
      let report = try await Self.explore(entry)
      #expect(!report.codes.contains(.deadLetter), "\(entry)")
      #expect(report.codes.contains(.deadlock), "\(entry)")
      #expect(report.verdict.remarks.contains(.allowed(entry, count: 1)), "\(entry)")
      #expect(report.verdict.degree == .exact)
    }
    for entry in [
      AllowedFinding(.deadLetter, node: "a", reason: "r"), AllowedFinding(.stuck, reason: "r"),
      AllowedFinding(.deadLetter, event: "x", reason: "r"),
      AllowedFinding(.deadLetter, state: "sending", reason: "r"),
    ] {
      let report = try await Self.explore(entry)
      #expect(report.codes.contains(.deadLetter), "\(entry)")
      #expect(report.verdict.remarks.contains(.allowed(entry, count: 0)), "\(entry)")
    }
  }

  @Test("'never enabled' findings omit a reducer's events that no reached state accepts")
  func ignored() async throws {
    // The machine `Automaton` has sixteen events, and each of these nodes accepts two of them.
    let report = try await Self.explore()
    let missing = report.findings(.neverEnabled).map(\.kind)
    #expect(missing == [.neverEnabled(owner: "b", event: "z")])
  }
}
