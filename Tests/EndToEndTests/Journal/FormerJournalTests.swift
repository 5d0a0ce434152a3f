import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Journals with the tables of version 2", .timed)
struct FormerJournalTests {
  /// Replaces the tables of a stopped node's journal by the tables of version 2.
  private func downgrade(_ file: JournalFile) throws {
    try file.run(
      """
      ALTER TABLE dead_letter RENAME TO letter;
      REPLACE INTO meta VALUES ('letters_lost', '3');
      \(["letter", "record", "outbox", "effect", "postponed", "prepared"]
        .map { "ALTER TABLE \($0) DROP COLUMN schema;" }.joined(separator: "\n"))
      UPDATE record SET cause = 'letter 1';
      DROP VIEW record_state;
      DROP INDEX record_base;
      ALTER TABLE record DROP COLUMN base;
      DROP TABLE instance;
      DROP TABLE instance_effect;
      PRAGMA user_version = 2;
      """)
  }

  private func deadLetters(_ tool: CommandLineTool) async throws -> [Int64] {
    let listed = try await tool.run("dead-letters", "gate", "-o", "json", code: 0)
    #expect(listed.error.hasPrefix("3 refused events "), "\(listed.error)")
    guard case .array(let deadLetters) = try JSONValue(parsing: listed.output.utf8) else {
      return []
    }
    return deadLetters.compactMap { $0["id"]?.integer }
  }

  @Test(
    "A journal of version 2 is readable, and its node upgrades the journal and keeps the numbering")
  func upgraded() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(Visitors.topology().yaml, to: "visitors.yaml")
    let file = try JournalFile(of: "gate", topology: "visitors", roots: tool.directory.roots)
    func refuse(until count: Int) async throws {
      while try file.integer("SELECT count(*) FROM dead_letter") < count {
        try await tool.run("send", "button", "press", code: 0)
      }
    }
    try await tool.run("up", "--wait", "visitors.yaml", code: 0)
    try await refuse(until: 2)
    try await tool.run("down", code: 0)
    let count = try file.integer("SELECT count(*) FROM dead_letter")
    let numbers = (1...Int64(count)).map(\.self)
    try downgrade(file)

    #expect(try await deadLetters(tool) == numbers)
    let page = try await tool.run("journal", "gate", code: 0)
    #expect(page.output.contains("letter 1"), "\(page)")
    #expect(try file.run("PRAGMA user_version") == ["2"])

    try await tool.run("up", "--wait", "visitors.yaml", code: 0)
    #expect(try file.run("PRAGMA user_version") == ["4"])
    #expect(
      try file.run("SELECT DISTINCT cause FROM record WHERE cause GLOB '*etter*'") == [
        "deadLetter 1"
      ])
    #expect(try file.run("SELECT value FROM meta WHERE key = 'dead_letters_lost'") == ["3"])
    try await tool.run("dead-letters", "gate", "drop", "\(count)", code: 0)
    // The number of the dropped dead letter, the last one, is not used again.
    let present = try await poll(within: .seconds(60)) {
      try await tool.run("send", "button", "press", code: 0)
      let present = try await deadLetters(tool)
      return present.count >= count ? present : nil
    }
    #expect(
      present?.starts(with: numbers.dropLast() + [Int64(count) + 1]) == true, "\(present ?? [])")
    try await tool.run("down", code: 0)
  }
}
