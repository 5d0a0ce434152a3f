import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing
import orchestrator

@Suite("The verb 'journal'", .timed)
struct JournalVerbTests {
  @Test(
    "'journal' shows state, pipes, dead letters, requests and records of any node")
  func text() async throws {
    try await withTopology(Visitors.topology(.postpone)) { topology in
      for _ in 1...3 { try await topology.send("button", Button.Event.press) }
      try await topology.expectStatus(of: "gate", "four that wait") {
        $0.status?.ins.first?.waiting == 4
      }
      let tool = CommandLineTool(beside: topology)
      let file = try JournalFile(of: "gate", in: topology)
      let gate = try await tool.run("journal", "gate", "-n", "2", code: 0)
      let lines = gate.output.split(separator: "\n").map(String.init)
      #expect(lines.first == "gate  of topology visitors, machine Gate")
      #expect(gate.output.contains("  file          \(file.path)  ("), "\(gate)")
      #expect(gate.output.contains("  state         shut(passed: 0)  (version 0)\n"), "\(gate)")
      #expect(
        gate.output.contains(
          """
            pipes in      visitors  4 consumed, 4 of them postponed
                            1: pass
                            2: pass
                            and 2 more

          """), "\(gate)")
      #expect(lines.last?.contains("initial") == true, "\(gate)")

      try await topology.stop("gate")
      try await topology.send("button", Button.Event.press)
      let button = try await tool.run("journal", "button")
      #expect(
        button.output.contains(
          """
            pipes out     visitors  5 queued, 4 acknowledged
                            5: pass

          """), "\(button)")
      #expect(button.output.contains("  requests      1 answered"), "\(button)")
      let records = button.output.split(separator: "\n").suffix(5)
      #expect(records.count == 5)
      for (version, record) in zip(1...4, records.suffix(4)) {
        #expect(record.contains("request      1  pressed(times: \(version))"), "\(button)")
      }
      #expect(records.first?.contains("VERSION  START  TIME") == false)
      // The page of the stopped node is the same, except for the size of the file.
      let stopped = try await tool.run("journal", "gate", "-n", "2").output
      #expect(withoutFile(stopped) == withoutFile(gate.output))
    }
  }

  private func withoutFile(_ page: String) -> [Substring] {
    page.split(separator: "\n").filter { !$0.hasPrefix("  file ") }
  }

  @Test("'journal -o json' shows one consistent snapshot, even while the node takes steps")
  func json() async throws {
    let numbers = """
      topology: numbers
      program: TestNodes
      nodes: { source: { machine: Source }, sink: { machine: Sink } }
      pipes: [{ from: source.out, to: sink.in, name: numbers }]
      """
    try await withTopology(yaml: numbers) { topology in
      let tool = CommandLineTool(beside: topology)
      try await topology.send("source", Source.Event.go(count: 5_000))
      var versions: [Int64] = []
      while versions.last != 5_000 {
        let result = try await tool.run("journal", "sink", "-n", "3", "-o", "json")
        try #require(result.code == 0, "\(result)")
        let page = try JSONValue(parsing: result.output.utf8)
        guard case .array(let records)? = page["records"], case .array(let ins)? = page["ins"]
        else { throw JournalFile.Failure(message: result.output) }
        // The page is a snapshot: state, version and consumed events belong together.
        let version = try #require(page["version"]?.integer)
        #expect(records.count <= 3)
        #expect(records.last?["version"]?.integer == version)
        #expect(records.last?["state"] == page["state"])
        #expect(page["state"]?["counting"]?["count"]?.integer == version)
        if version > 0 { #expect(ins.first?["consumed"]?.integer == version) }
        #expect(versions.last ?? 0 <= version)
        versions.append(version)
      }
      try await topology.expect(
        "source", Source.State.idle(sent: 5_000), within: .seconds(30))
      let result = try await tool.run("journal", "source", "-o", "jsonl")
      let page = try JSONValue(parsing: result.output.utf8)
      #expect(page["machine"] == "Source")
      #expect(page["topology"] == "numbers")
      #expect(page["effects"] == [])
    }
  }

  @Test("'journal' shows a pending effect with the version of its step")
  func effects() async throws {
    try await withTopology("topologies/elevator.yaml") { topology in
      let tool = CommandLineTool(beside: topology)
      try await topology.expect("motor", is: "moving", within: .seconds(20))
      try await topology.kill("motor")
      let found = try await poll(every: .milliseconds(10), within: .seconds(20)) {
        let result = try await tool.run("journal", "motor")
        return result.output.contains("  effects       of version ") ? true : nil
      }
      #expect(found == true)
    }
  }

  @Test("'journal' of a node that does not exist causes an error that names the existing nodes")
  func missing() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let none = try await tool.run("journal", "gate", code: 3)
    #expect(none.reports(CommandError.noTopologyHasRun), "\(none)")
    try tool.directory.write(Visitors.topology().yaml, to: "visitors.yaml")
    try await tool.run("up", "--wait", "visitors.yaml", code: 0)
    let typo = try await tool.run("journal", "gaet", code: 2)
    #expect(
      typo.error
        == "orchestrator: error: no node 'gaet' of topology 'visitors' has run on this host; there are "
        + "'button', 'gate'. Did you mean 'gate'?\n")
    try await tool.run("down", code: 0)
    // No topology runs, and the journal can be read nevertheless.
    let down = try await tool.run("journal", "button", "-n", "0", code: 0)
    #expect(down.output.contains("  state         pressed(times: 0)  (version 0)"), "\(down)")
    #expect(!down.output.contains("VERSION"), "\(down)")
  }

  @Test("'ps', 'status' and 'describe' show durability and version")
  func elsewhere() async throws {
    try await withTopology(Visitors.topology()) { topology in
      try await topology.send("button", Button.Event.press)
      // A node that is too busy to answer is shown with its last known status.
      try await topology.expectStatus(of: "button", "version 1") { $0.status?.version == 1 }
      let tool = CommandLineTool(beside: topology)
      let file = try JournalFile(of: "button", in: topology)
      let status = try await tool.run("status", "button")
      #expect(status.output.contains("pressed(times: 1)  (version 1)"), "\(status)")
      let page = try await tool.run("describe", "button")
      #expect(page.output.contains("  durability    process\n"), "\(page)")
      #expect(page.output.contains(file.path), "\(page)")
      let table = try await tool.run("ps")
      #expect(table.output.contains("DURABILITY  VERSION  STATE"), "\(table)")
      #expect(table.output.contains("process           1  pressed(times: 1)"), "\(table)")
      let json = try JSONValue(parsing: try await tool.run("ps", "-o", "json").output.utf8)
      guard case .array(let nodes) = json else { throw JournalFile.Failure(message: json.text) }
      #expect(nodes.first?["durability"] == "process")
      #expect(nodes.first?["journal"] == .string(file.path))
      #expect(nodes.first?["version"]?.integer == 1)
    }
  }

  @Test(
    "A node forgets a reply that its client has received, even if the next request is refused")
  func answers() async throws {
    try await withTopology(Visitors.topology()) { topology in
      try await topology.expectStatus(of: "gate", "a letter") { $0.status?.deadLetters == 1 }
      for _ in 1...5 {
        for event in [Gate.Event.open, .open, .shut, .shut] {
          try await topology.send("gate", event)
        }
      }
      let file = try JournalFile(of: "gate", in: topology)
      let query = "SELECT version, state FROM request"
      func become(_ rows: [String]) async throws -> Bool {
        try await poll(within: .seconds(20)) { try file.run(query) == rows ? true : nil } == true
      }
      #expect(try await become([]))
      try await topology.send("gate", Gate.Event.open)
      #expect(try await become(["11|{\"open\":{\"passed\":0}}"]))
    }
  }

  @Test("A journal keeps every answered request, and does not repeat a large state in each request")
  func largeAnswers() async throws {
    let yaml = """
      topology: bulk
      program: TestNodes
      nodes: { blob: { machine: Blob } }
      """
    try await withTopology(yaml: yaml) { topology in
      let tool = CommandLineTool(beside: topology)
      // Each call is a separate client, which never acknowledges its reply.
      for count in 1...14 {
        let sent = try await tool.run(
          "send", "blob", "{\"grow\":{\"byteCount\":\(600_000 + count)}}", "-o", "json")
        #expect(sent.code == 0, "\(sent.error)")
      }
      let file = try JournalFile(of: "blob", in: topology)
      let query = "SELECT count(*), max(version), sum(length(state)) FROM request"
      let isWritten = try await poll(within: .seconds(20)) {
        try file.run(query) == ["14|14|0"] ? true : nil
      }
      let rows = try file.run(query)
      #expect(isWritten == true, "\(rows)")
      #expect(try file.run("SELECT count(*), sum(length(state)) < 2000000 FROM record") == ["15|1"])
    }
  }

  @Test("After a pipe is renamed, events that were postponed under its former name are kept")
  func renamedPipe() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    func run(pipe name: String, presses: Int, until expected: [String]) async throws {
      var topology = Visitors.topology(.postpone)
      topology.pipes[0].name = name
      try tool.directory.write(topology.yaml, to: "visitors.yaml")
      try await tool.run("up", "--wait", "visitors.yaml", code: 0)
      for _ in 0..<presses { try await tool.run("send", "button", "press", code: 0) }
      // Events that have not reached the gate before it stops stay in the button's journal.
      _ = try await poll(within: .seconds(20)) { try postponed() == expected ? true : nil }
      try await tool.run("down", code: 0)
      #expect(try postponed() == expected)
    }
    func postponed() throws -> [String] {
      try JournalFile(of: "gate", topology: "visitors", roots: tool.directory.roots)
        .run("SELECT pipe, sequence FROM postponed ORDER BY id")
    }
    // The start of the button sends an event as well.
    let first = ["first|1", "first|2"]
    try await run(pipe: "first", presses: 1, until: first)
    let second = first + ["second|1", "second|2"]
    try await run(pipe: "second", presses: 2, until: second)
    let page = try await tool.run("journal", "gate")
    #expect(page.output.contains("first  2 consumed, 2 of them postponed"), "\(page)")
    #expect(page.output.contains("second  2 consumed, 2 of them postponed"), "\(page)")
    // Under its first name, the pipe continues its numbering.
    try await run(pipe: "first", presses: 1, until: second + ["first|3"])
  }

  @Test("docs/JOURNAL.md describes every table and column, and its queries run")
  func documentation() async throws {
    let descriptor = open(PackagePath.root + "/docs/JOURNAL.md", O_RDONLY)
    defer { close(descriptor) }
    let text = String(decoding: try FileSystem.read(descriptor), as: UTF8.self)
    let queries = text.split(separator: "```sql\n").dropFirst()
      .compactMap { $0.split(separator: "```").first }.joined()
    #expect(queries.split(separator: ";").count >= 4)
    try await withTopology(Visitors.topology()) { topology in
      try await topology.expectStatus(of: "gate", "a letter") { $0.status?.deadLetters == 1 }
      let file = try JournalFile(of: "gate", in: topology)
      let isThere = try await poll(within: .seconds(20)) {
        try file.run(queries).contains("visitors|refused: noTransition|1") ? true : nil
      }
      let rows = try file.run(queries)
      #expect(isThere == true, "\(rows)")
      let columns = try file.run(
        """
        SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
        WHERE t.name NOT LIKE 'sqlite_%'
        """)
      #expect(columns.count > 40)
      for column in columns {
        let names = column.split(separator: "|")
        // From the name of this table to the name of the next one.
        let section = text.components(after: "\n`\(names[0])`")
        #expect(section?.contains("`\(names[1])`") == true, "\(column)")
      }
    }
  }

  @Test("sqlite3 and 'journal' show the same waiting events")
  func tables() async throws {
    try await withTopology(Visitors.topology()) { topology in
      try await topology.expectStatus(of: "gate", "a letter") { $0.status?.deadLetters == 1 }
      try await topology.stop("gate")
      for _ in 1...3 { try await topology.send("button", Button.Event.press) }
      let file = try JournalFile(of: "button", in: topology)
      let waiting = (2...4).map { "visitors|\($0)|\"pass\"" }
      let query = "SELECT pipe, sequence, event FROM outbox_event ORDER BY sequence"
      _ = try await poll(within: .seconds(20)) { try file.run(query) == waiting ? true : nil }
      #expect(try file.run(query) == waiting)
      #expect(try file.run("SELECT queued, acknowledged FROM sent") == ["4|1"])
      #expect(
        try file.run("SELECT state FROM record ORDER BY id DESC LIMIT 1")
          == ["{\"pressed\":{\"times\":3}}"])
    }
  }
}

extension String {
  /// Returns the text after the heading, up to the next line that begins with a name.
  fileprivate func components(after heading: String) -> Substring? {
    guard let start = firstRange(of: heading)?.upperBound else { return nil }
    let rest = self[start...]
    return rest.firstRange(of: "\n\n`").map { rest[..<$0.lowerBound] } ?? rest
  }
}
