import PipeLogs
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing
import orchestrator

@Suite("What the command shows", .timed)
struct ConsoleTests {
  @Test("columns are aligned by what a terminal shows, and control characters are harmless")
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
    "text is cut to columns",
    arguments: [("door", 4, "door"), ("doors", 4, "doo…"), ("戸戸戸", 4, "戸…"), ("x", 0, "")])
  func cut(text: String, columns: Int, result: String) {
    #expect(text.cut(to: columns) == result)
  }

  private let rows = [
    NodeRow(
      node: "door", status: "running", state: "closing(persons: 3)",
      process: NodeRow.Process(pid: 12, uptime: .seconds(75), events: 9, restarts: 1)),
    NodeRow(node: "motor", status: "backing off", reason: "exit code 1"),
  ]

  @Test("a frame is drawn over the one before and leaves nothing of it")
  func frame() {
    var view = LiveView(style: Style(isColored: false))
    let hide = "\u{1B}[?25l"
    let show = "\u{1B}[J\u{1B}[?25h"
    let body = [
      "elevator", "NODE   STATUS       PID      UPTIME  EVENTS  RESTARTS  STATE",
      "door   running       12  1 min 15 s       9         1  closing(persons: 3)",
      "motor  backing off    -           -       0         0  exit code 1", "^C stops",
    ].map { $0 + "\u{1B}[K\n" }.joined()
    func frame() -> String {
      view.frame(title: "elevator", rows: rows, footer: "^C stops", columns: 80, rows: 24)
    }
    #expect(frame() == hide + "\r" + body + show)
    #expect(frame() == hide + "\r\u{1B}[5A" + body + show)
    #expect(view.clear() == "\r\u{1B}[5A\u{1B}[J")
    #expect(frame().hasPrefix(hide + "\r" + "elevator"))
    view.leaveFrame()
    #expect(frame() == hide + "\r" + body + show)
  }

  @Test(
    "a frame fits any terminal", arguments: [(80, 24), (20, 6), (5, 3), (1, 1), (200, 2)])
  func fits(columns: Int, height: Int) {
    let many = (0..<50).map { NodeRow(node: "node\($0)", status: "running", state: "on") }
    var view = LiveView(style: Style(isColored: false))
    let text = view.frame(
      title: "a long title of a topology", rows: many, footer: "^C stops", columns: columns,
      rows: height)
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
    #expect(lines.count <= max(height - 1, 1))
    for line in lines {
      var shown = String(line)
      for code in ["\u{1B}[?25l", "\u{1B}[?25h", "\r", "\u{1B}[K"] {
        shown = shown.split(separator: code, omittingEmptySubsequences: false).joined()
      }
      #expect(shown.displayWidth <= columns)
    }
    #expect(height < 24 || text.contains("more"))
  }

  @Test("without a terminal there is a line for each change, of a running node its state alone")
  func changes() {
    var view = LiveView(style: Style(isColored: false))
    #expect(
      view.changes(rows) == ["door: closing(persons: 3), pid 12", "motor: backing off"])
    #expect(view.changes(rows) == [])
    var next = rows
    next[0].state = "closed"
    next[0].process?.events = 10
    #expect(view.changes(next) == ["door: closed"])
    next[0].status = "stopping"
    next[1] = NodeRow(node: "motor", status: "running", process: NodeRow.Process(pid: 13))
    #expect(view.changes(next) == ["door: stopping closed", "motor: running, pid 13"])
  }

  @Test("log lines have their node in front, and as JSON all there is")
  func logLines() throws {
    let entry = LogEntry(
      node: "door", time: try #require(Timestamp("2026-11-20T09:00:00.123Z")), stream: .err,
      text: "a \"b\"")
    let plain = Style(isColored: false)
    func line(_ format: OutputFormat, time: Bool, node: Bool) -> String {
      var printer = LogPrinter(
        format: format, hasTime: time, hasNode: node, nodes: ["door", "motor"])
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
