import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing
import orchestrator

@Suite("The space of journals", .timed)
struct JournalSpaceTests {
  private static func visitors(_ journal: String, ofGate own: String = "") -> String {
    """
    topology: visitors
    program: TestNodes
    journal: \(journal)
    nodes:
      button: { machine: Button }
      gate: { machine: Gate\(own) }
      sign: { machine: Button, durability: none }
    pipes: [{ from: button, when: pressed, to: gate, send: pass, name: visitors }]
    """
  }

  private static func sizes(_ tool: CommandLineTool) async throws -> [JSONValue] {
    let result = try await tool.run("journal", "--size", "-o", "json", code: 0)
    guard case .array(let sizes) = try JSONValue(parsing: result.output.utf8) else {
      throw JournalFile.Failure(message: result.output)
    }
    return sizes
  }

  @Test(
    "The limits of a file apply, a lower limit removes no dead letter, and '--size' counts the rows"
  )
  func limits() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(
      Self.visitors("{ records: 8, dead_letters: 3 }", ofGate: ", journal: { dead_letters: 2 }"),
      to: "visitors.yaml")
    try await tool.run("up", "--wait", "visitors.yaml", code: 0)
    // The closed gate refuses each visitor: one at the start, and one for each press.
    for _ in 1...20 { try await tool.run("send", "button", "press", code: 0) }
    let status = try await poll(within: .seconds(20)) {
      let status = try await tool.run("status", "-o", "json").output
      return status.contains("\"deadLettersLost\":19,") ? status : nil
    }
    #expect(status?.contains("\"deadLetters\":2,") == true)
    func check(_ deadLetters: Int64) async throws {
      let sizes = try await Self.sizes(tool)
      #expect(sizes.map { $0["node"] } == ["button", "gate"])
      let (button, gate) = (sizes.first?["rows"], sizes.last?["rows"])
      #expect(gate?["deadLetters"]?.integer == deadLetters, "\(sizes)")
      #expect((8...11).contains(button?["records"]?.integer ?? 0), "\(sizes)")
      // No limit applies to the numbers of requests that were not acknowledged.
      #expect((button?["requests"]?.integer ?? 0) >= 20, "\(sizes)")
      for size in sizes {
        #expect((size["database"]?.integer ?? 0) > 0 && (size["log"]?.integer ?? 0) > 0)
        #expect((size["disk"]?["size"]?.integer ?? 0) > 0)
        #expect(size["error"] == .null)
      }
    }
    _ = try await poll(within: .seconds(20)) {
      let sizes = try await Self.sizes(tool)
      return sizes.last?["rows"]?["deadLetters"]?.integer == 2
        && (sizes.first?["rows"]?["requests"]?.integer ?? 0) >= 20 ? true : nil
    }
    try await check(2)

    try tool.directory.write(Self.visitors("{ records: 8, dead_letters: 1 }"), to: "visitors.yaml")
    try await tool.run("apply", "visitors.yaml", code: 0)
    try await tool.run("send", "button", "press", code: 0)
    _ = try await poll(within: .seconds(20)) {
      try await tool.run("status", "-o", "json").output.contains("\"deadLettersLost\":20,")
        ? true : nil
    }
    try await check(2)
    let letters = try await tool.run("dead-letters", "gate", code: 0)
    #expect(letters.error.contains("20 refused events were not stored"), "\(letters)")
    let text = try await tool.run("journal", "--size", "gate", code: 0)
    #expect(text.output.hasPrefix("NODE  "), "\(text)")
    #expect(text.output.contains("DEAD LETTERS") && text.output.contains("\ndisk of "), "\(text)")

    try await tool.run("down", code: 0)
    try await check(2)
    let one = try await tool.run("journal", "--size", "gate", "-o", "jsonl", code: 0)
    #expect(one.output.split(separator: "\n").count == 1)
    let volatile = try await tool.run("journal", "--size", "sign", code: 1)
    #expect(volatile.error.contains("node 'sign' has no journal"), "\(volatile)")
    let typo = try await tool.run("journal", "--size", "gaet", code: 2)
    #expect(typo.error.contains("Did you mean 'gate'?"), "\(typo)")
  }

  @Test("'journal --size' reports a journal that cannot be read, and the sizes of its files")
  func unreadable() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try tool.directory.write(Self.visitors("{ records: 8 }"), to: "visitors.yaml")
    try await tool.run("up", "--wait", "visitors.yaml", code: 0)
    try await tool.run("down", code: 0)
    let directories = try RuntimeDirectories(topology: "visitors", roots: tool.directory.roots)
    let path = directories.journal(of: "gate")
    let bytes = Array(repeating: UInt8(ascii: "x"), count: 5_000)
    try FileSystem.replace(path, with: bytes)
    let result = try await tool.run("journal", "--size", "-o", "json", code: 1)
    let sizes = try JSONValue(parsing: result.output.utf8)
    guard case .array(let sizes) = sizes else { throw JournalFile.Failure(message: result.output) }
    #expect(sizes.first?["error"] == .null && sizes.first?["rows"] != .null, "\(result)")
    #expect(sizes.last?["database"]?.integer == 5_000 && sizes.last?["rows"] == .null, "\(result)")
    #expect(sizes.last?["error"]?.string?.contains("'\(path)'") == true, "\(result)")
  }

  @Test(
    "A nearly full disk of journals is reported once each time that it fills up",
    .enabled(
      if: JournalPlaceTests.canMount, "mounting a small file system is not permitted here"))
  func nearlyFullDisk() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let directories = try RuntimeDirectories(topology: "visitors", roots: tool.directory.roots)
    try FileSystem.makeDirectories(directories.journals, mode: 0o700)
    try #require(mount("tmpfs", directories.journals, "tmpfs", 0, "size=40m,mode=700") == 0)
    defer { umount2(directories.journals, Int32(MNT_DETACH)) }
    try tool.directory.write(Self.visitors("{ records: 8 }"), to: "visitors.yaml")
    try await tool.run("up", "--wait", "visitors.yaml", code: 0)
    #expect(!(try await tool.run("status")).output.contains("the disk with its journal"))
    func expectWarnings(_ count: Int) async throws {
      let found = try await poll(within: .seconds(20)) {
        let log = try await tool.run("logs", "orchestrator", "-n", "1000").output
        let lines = log.split(separator: "\n").filter { $0.contains("the disk with the journal") }
        return lines.count == count ? lines : nil
      }
      #expect(found?.last?.contains("journal --size -p visitors") != false)
      #expect(found != nil, "\(count) warnings")
    }
    let ballast = directories.journals + "/ballast"
    for round in 1...2 {
      try FileSystem.replace(ballast, with: Array(repeating: 1, count: 36 << 20))
      let status = try await poll(within: .seconds(20)) {
        let status = try await tool.run("status")
        return status.output.contains(" % full, with ") ? status : nil
      }
      #expect(
        status?.output.contains("button: the disk with its journal is 9") == true,
        "\(status.map { "\($0)" } ?? "no warning")")
      #expect(try await tool.run("ps").error.contains("orchestrator journal --size"))
      try await expectWarnings(round)
      unlink(ballast)
      _ = try await poll(within: .seconds(20)) {
        try await tool.run("status").output.contains(" % full, with ") ? nil : true
      }
      #expect(!(try await tool.run("status")).output.contains(" % full, with "))
      // Each node reports the freed space before the next round.
      try await expectWarnings(round)
    }
    try await tool.run("down", code: 0)
  }
}
