import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// Checks that the journals are read before any node is stopped for a file that does not match
/// them.
@Suite("'apply' of a file that does not match the journals", .timed)
struct ApplyJournalTests {
  private static let file = """
    topology: ward
    program: nodes
    nodes:
      a: { machine: Relay }
      t: { machine: Tally }
    pipes:
      - { from: a.out, to: t.in }
    """

  @Test("'apply' stops no node when a node's journal belongs to another machine")
  func otherMachine() async throws {
    try await DetachedTopology.with(Self.file) { ward in
      let before = try await ward.pids()
      try ward.write(Self.file.replacing("t: { machine: Tally }", with: "t: { machine: Relay }"))
      for options in [["--dry-run"], []] {
        let refused = try await ward.run(["apply", "ward.yaml"] + options, code: 1)
        #expect(
          refused.error.contains("node 't' could not start: the journal '"), "\(refused)")
        #expect(refused.error.contains("belongs to machine 'Tally', not to 'Relay'"), "\(refused)")
      }
      #expect(try await ward.pids() == before)
      #expect(try await ward.directory().nodes.allSatisfy(\.isRunning))
    }
  }

  @Test("'apply' stops no node when an added node's journal belongs to another machine")
  func addedNode() async throws {
    try await DetachedTopology.with(Self.file) { ward in
      try ward.write(
        Self.file.replacing("pipes:", with: "x-pipes:")
          .replacing("  t: { machine: Tally }\n", with: ""))
      try await ward.apply()
      let before = try await ward.pids()
      try ward.write(
        Self.file.replacing("pipes:", with: "x-pipes:")
          .replacing("t: { machine: Tally }", with: "t: { machine: Relay }"))
      let refused = try await ward.apply(code: 1)
      #expect(refused.error.contains("belongs to machine 'Tally', not to 'Relay'"), "\(refused)")
      #expect(try await ward.pids() == before)
      try await ward.run("reset", "t", "--yes")
      try await ward.apply()
      #expect(try await ward.directory()[node: "t"]?.isRunning == true)
    }
  }
}
