import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Damaged and foreign journals", .timed)
struct BadJournalTests {
  /// A change to the files of a stopped node's journal, and the expected error.
  struct Case: Sendable, CustomTestStringConvertible {
    var what: String
    var happen: @Sendable (JournalFile) throws -> Void
    /// The parts of the node's failure reason, besides the file's path.
    var says: [String]
    var testDescription: String { what }
  }

  private static let reset = "'orchestrator reset gate'"
  private static let copy = "\(JournalError.damaged(path: "", node: "gate", reason: "…"))"
    .text(after: "…")

  /// The text of the error for a journal of another owner, after the path of the journal.
  private static func other(
    _ attribute: String, _ found: String, _ expected: String
  ) -> String {
    let error = JournalError.mismatch(
      path: "…", node: "gate", attribute: attribute, found: found, expected: expected)
    return "\(error)".text(after: "'…'")
  }

  static let cases: [Case] = [
    Case(
      what: "a journal of another machine",
      happen: {
        try $0.run("UPDATE meta SET value = 'Turnstile' WHERE key = 'machine'")
      }, says: [other("machine", "Turnstile", "Gate")]),
    Case(
      what: "a journal of another node",
      happen: {
        try $0.run("UPDATE meta SET value = 'door' WHERE key = 'node'")
      }, says: [other("node", "door", "gate")]),
    Case(
      what: "a journal of another topology",
      happen: {
        try $0.run("UPDATE meta SET value = 'zoo' WHERE key = 'topology'")
      }, says: [other("topology", "zoo", "visitors")]),
    Case(
      what: "a state of an older type",
      happen: {
        try $0.run("UPDATE record SET state = '{\"ajar\":{\"degrees\":20}}'")
      }, says: ["ajar", "run that version", reset]),
    Case(
      what: "tables of another version",
      happen: {
        try $0.run("PRAGMA user_version = 7")
      }, says: ["has tables of version 7", "reads version 4", reset]),
    Case(
      what: "another program's database",
      happen: {
        try $0.run("PRAGMA application_id = 7")
      }, says: ["is damaged: the file is not a journal", copy, reset]),
    Case(
      what: "an overwritten header",
      happen: {
        try $0.checkpoint()
        try $0.write([UInt8](repeating: 0xA5, count: 100), at: 0)
      }, says: ["is damaged: ", "not a database", copy, reset]),
    Case(
      what: "an empty file",
      happen: { file in
        try #require(truncate(file.path, 0) == 0)
      }, says: ["is damaged: the file is empty", copy, reset]),
    Case(
      what: "a truncated file",
      happen: { file in
        try file.checkpoint()
        try #require(truncate(file.path, 4096 * 5) == 0)
      }, says: ["is damaged: ", copy, reset]),
    Case(
      what: "an overwritten page",
      happen: { file in
        try file.checkpoint()
        let page = try #require(
          try file.run("SELECT rootpage FROM sqlite_schema WHERE name = 'record'").first)
        let number = try #require(Int(page))
        try file.write([UInt8](repeating: 0xA5, count: 4096), at: (number - 1) * 4096)
      }, says: ["is damaged: ", copy, reset]),
    Case(
      what: "a removed '-wal' file",
      happen: { file in
        try #require(unlink(file.path + "-wal") == 0)
        // Erases the log in the '.step' file, which still has the same records.
        try file.write([UInt8](repeating: 0, count: 64 << 10), at: 8192, of: ".step")
      },
      says: [
        "is damaged: the journal ends at record", "the '-wal' file was removed", copy, reset,
      ]),
    Case(
      what: "a truncated '.step' file",
      happen: { file in
        try #require(truncate(file.path + ".step", 1064) == 0)
      }, says: ["is damaged: the '.step' file was truncated: it has 1064 of ", copy, reset]),
    Case(
      what: "a removed database file",
      happen: { file in
        try #require(unlink(file.path) == 0)
      }, says: ["is damaged: the file is missing, but its '-wal' file exists", copy, reset]),
    Case(
      what: "only the '.step' file left",
      happen: { file in
        try #require(unlink(file.path) == 0)
        try #require(unlink(file.path + "-wal") == 0)
      }, says: ["is damaged: the file is missing, but record", copy, reset]),
    Case(
      what: "a directory in place of the journal",
      happen: { file in
        try #require(unlink(file.path) == 0)
        try #require(mkdir(file.path, 0o700) == 0)
      }, says: ["cannot be used: not a regular file"]),
  ]

  @Test(
    "A node with a bad journal fails at once, names a remedy, and does not change the journal",
    arguments: cases)
  func failure(bad: Case) async throws {
    try await withTopology(Visitors.topology()) { topology in
      let file = try await prepare(topology)
      let good = try file.contents()
      try bad.happen(file)
      // Ignores empty files, and the index of the write-ahead log. SQLite empties a log that it has
      // copied into the database, and writes the index again.
      func contents() throws -> [String: [UInt8]] {
        try file.contents().filter { $0.key != "-shm" && !$0.value.isEmpty }
      }
      let before = try contents()
      try await expectFailure(of: topology, bad, file)
      let after = try contents()
      #expect(after.keys.sorted() == before.keys.sorted())
      for (suffix, bytes) in before where after[suffix] != bytes { Issue.record("'\(suffix)'") }
      // After the files are restored, the node continues from them.
      try file.replace(with: good)
      try await topology.start("gate")
      let gate = try await topology.expect("gate", Gate.State.open(passed: 2))
      #expect(gate.version == 3)
    }
  }

  @Test(
    "'reset' of a bad journal lets the node start in its initial state and its sender continue",
    arguments: cases)
  func reset(bad: Case) async throws {
    try await withTopology(Visitors.topology()) { topology in
      let file = try await prepare(topology)
      try bad.happen(file)
      await #expect(throws: TopologyClientError.self) { try await topology.start("gate") }
      if FileSystem.isDirectory(file.path) { rmdir(file.path) }
      let result = try await CommandLineTool(beside: topology).run("reset", "gate")
      #expect(result.code == 0, "\(result)")
      #expect(result.output.hasPrefix("gate: "), "\(result)")
      try await topology.start("gate")
      let gate = try await topology.expectStatus(of: "gate", "a state") { $0.status?.state != nil }
      #expect(gate.status?.state == ["shut": ["passed": 0]])
      #expect(gate.status?.version == 0)
      try await topology.send("gate", Gate.Event.open)
      try await topology.send("button", Button.Event.press)
      try await topology.expect("gate", Gate.State.open(passed: 1))
    }
  }

  @Test(
    "The verbs that read a journal report the same error as the journal's node", arguments: cases)
  func verbs(bad: Case) async throws {
    try await withTopology(Visitors.topology()) { topology in
      let file = try await prepare(topology)
      try bad.happen(file)
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run("journal", "gate")
      // The verbs do not check the owner, the decoding of states, or a missing log. Only the node
      // does.
      let isReadable =
        bad.says.contains { $0.contains(", not to ") }
        || ["a state of an older type", "a removed '-wal' file", "a truncated '.step' file"]
          .contains(bad.what)
      #expect(result.code == (isReadable ? 0 : 1), "\(result)")
      if !isReadable { #expect(result.error.contains(file.path), "\(result)") }
      // A node without a file has no dead letters.
      if !isReadable, FileSystem.exists(file.path) {
        let deadLetters = try await tool.run("dead-letters", "gate", code: 1)
        #expect(deadLetters.error.contains(file.path), "\(deadLetters)")
      }
    }
  }

  /// Brings the gate to version 3 and stops it.
  private func prepare(_ topology: TopologyHarness) async throws -> JournalFile {
    // The button has sent the first visitor on its start, and the gate has refused it.
    try await topology.expectStatus(of: "gate", "a letter") { $0.status?.deadLetters == 1 }
    try await topology.send("gate", Gate.Event.open)
    for count in 1...2 {
      try await topology.send("button", Button.Event.press)
      try await topology.expect("gate", Gate.State.open(passed: count))
    }
    try await topology.stop("gate")
    return try JournalFile(of: "gate", in: topology)
  }

  private func expectFailure(
    of topology: TopologyHarness, _ bad: Case, _ file: JournalFile
  ) async throws {
    do {
      try await topology.start("gate")
      Issue.record("it runs")
    } catch TopologyClientError.failed(let reason) {
      for part in bad.says + ["'\(file.path)'"] { #expect(reason.contains(part), "\(reason)") }
    }
    let gate = try await topology.status("gate")
    #expect(gate.phase == "failed")
    #expect(gate.incarnation == 2)
    #expect(gate.pid == nil)
    // The status page and the log show the whole reason, and the table its beginning.
    let tool = CommandLineTool(beside: topology)
    for verb in ["status", "describe"] {
      let result = try await tool.run(verb)
      #expect(result.output.contains(file.path), "\(verb): \(result)")
    }
    let table = try await tool.run("ps", "gate")
    #expect(table.output.contains("the journal '"), "\(table)")
    try await topology.expectLog("gate", contains: "piperuntime: error: the journal '\(file.path)'")
  }
}
