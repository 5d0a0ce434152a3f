import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// What a journal holds is looked at before anything is stopped for a file that cannot go on from it.
@Suite("'apply' of a file that cannot go on from the journals", .timed)
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

  @Test("stops no node when a node's journal is of another machine")
  func otherMachine() async throws {
    try await DetachedTopology.with(Self.file) { ward in
      let before = try await ward.pids()
      try ward.write(Self.file.replacing("t: { machine: Tally }", with: "t: { machine: Relay }"))
      for options in [["--dry-run"], []] {
        let refused = try await ward.run(["apply", "ward.yaml"] + options, code: 1)
        #expect(
          refused.error.contains("node 't' could not start: the journal '"), "\(refused)")
        #expect(refused.error.contains("is of machine 'Tally', not of 'Relay'"), "\(refused)")
      }
      #expect(try await ward.pids() == before)
      #expect(try await ward.directory().nodes.allSatisfy(\.isRunning))
    }
  }

  @Test("stops no node when the journal of an added node is of another machine")
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
      #expect(refused.error.contains("is of machine 'Tally', not of 'Relay'"), "\(refused)")
      #expect(try await ward.pids() == before)
      try await ward.run("reset", "t", "--yes")
      try await ward.apply()
      #expect(try await ward.directory()[node: "t"]?.isRunning == true)
    }
  }
}
