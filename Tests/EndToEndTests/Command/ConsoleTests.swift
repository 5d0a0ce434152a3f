import PipeClient
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing
import orchestrator

@Suite("Output of the orchestrator command", .timed)
struct ConsoleTests {
  @Test("Table columns align by display width, and control characters are replaced")
  func table() {
    var table = Table(.init("NODE"), .init("PID", .right), .init("STATE"))
    table.add("door", "7", "closed")
    table.add("戸", "12345", "o\u{1B}[31mpen\n")
    #expect(
      table.lines() == [
        "NODE    PID  STATE",
        "door      7  closed",
        "戸    12345  o\u{FFFD}[31mpen\u{FFFD}",
      ])
    #expect(table.lines(width: 14) == ["NODE    PID  …", "door      7  …", "戸    12345  …"])
  }

  @Test(
    "Text is cut to a display width",
    arguments: [("door", 4, "door"), ("doors", 4, "doo…"), ("戸戸戸", 4, "戸…"), ("x", 0, "")])
  func cut(text: String, columns: Int, result: String) {
    #expect(text.cut(to: columns) == result)
  }

  private let rows = [
    NodeRow(
      node: "door", phase: "running", state: "closing(persons: 3)",
      process: NodeRow.Process(pid: 12, uptime: .seconds(75), events: 9, restarts: 1)),
    NodeRow(node: "motor", phase: "backing off", reason: "exit code 1"),
  ]

  @Test("Without a terminal, each change of a node's state or status is printed as one line")
  func changes() {
    var changes = NodeChangeTracker()
    #expect(
      changes.changes(to: rows).map(\.line) == [
        "door: closing(persons: 3), pid 12", "motor: backing off",
      ])
    #expect(changes.changes(to: rows) == [])
    var next = rows
    next[0].state = "closed"
    next[0].process?.eventCount = 10
    #expect(changes.changes(to: next).map(\.line) == ["door: closed"])
    next[0].phase = "stopping"
    next[1] = NodeRow(node: "motor", phase: "running", process: NodeRow.Process(pid: 13))
    #expect(
      changes.changes(to: next).map(\.line) == ["door: stopping closed", "motor: running, pid 13"])
  }

  @Test(
    "A log line begins with the node's name in text output, and is a full record in JSON output")
  func logLines() throws {
    let entry = LogEntry(
      node: "door", time: try #require(Timestamp("2026-11-20T09:00:00.123Z")), stream: .err,
      text: "a \"b\"")
    let plain = Style(isColored: false)
    func line(_ format: OutputFormat, time: Bool, node: Bool) -> String {
      var printer = LogPrinter(
        format: format, showsTime: time, showsNode: node, nodes: ["door", "motor"])
      return printer.line(entry, style: plain)
    }
    #expect(line(.text, time: false, node: true) == "door  | a \"b\"")
    #expect(line(.text, time: true, node: false) == "2026-11-20T09:00:00.123Z a \"b\"")
    #expect(
      line(.jsonl, time: false, node: false) == """
        {"node":"door","stream":"err","text":"a \\"b\\"","time":"2026-11-20T09:00:00.123Z"}
        """)
  }
}
