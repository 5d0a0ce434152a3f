import PipeRuntime

/// A table of nodes that redraws in place on a terminal. It only renders: the text that comes back
/// is for the caller to write.
package struct LiveView: Sendable {
  package struct Row: Hashable, Sendable {
    package var node: String
    /// The lifecycle's word: `running`, `backing off`.
    package var status: String
    /// The machine's state as text; empty where it is not known.
    package var state: String
    /// Why it is not known; empty where it is, or where there is nothing to say.
    package var reason: String
    package var pid: Int32?
    package var uptime: Duration?
    package var events: Int
    package var restarts: Int

    package init(
      node: String, status: String, state: String = "", reason: String = "", pid: Int32? = nil,
      uptime: Duration? = nil, events: Int = 0, restarts: Int = 0
    ) {
      self.node = node
      self.status = status
      self.state = state
      self.reason = reason
      self.pid = pid
      self.uptime = uptime
      self.events = events
      self.restarts = restarts
    }

    /// The cell of a table.
    package var stateCell: String {
      state.isEmpty ? reason.isEmpty ? "-" : reason : state
    }
  }

  private let style: Style
  /// The lines of the frame on the screen.
  private var drawn = 0
  private var shown: [String: Row] = [:]

  package init(style: Style) { self.style = style }

  /// A frame over the one before, at most `columns` wide and one less than `rows` high.
  package mutating func frame(
    title: String, rows: [Row], footer: String = "", columns: Int, rows height: Int
  ) -> String {
    var lines = [style.bold(title.printable.cut(to: columns))]
    let table = Self.table(rows).lines(style: style, width: columns)
    // The line the cursor waits on, the title, and the footer.
    let room = max(height - 2 - (footer.isEmpty ? 0 : 1), 1)
    if table.count <= room {
      lines += table
    } else {
      lines += table.prefix(max(room - 1, 1))
      lines.append(style.dim("… \(table.count - max(room - 1, 1)) more".cut(to: columns)))
    }
    if !footer.isEmpty { lines.append(style.dim(footer.printable.cut(to: columns))) }
    lines = Array(lines.prefix(max(height - 1, 1)))
    defer { drawn = lines.count }
    return "\u{1B}[?25l" + toTop + lines.map { $0 + "\u{1B}[K\n" }.joined() + "\u{1B}[J"
  }

  /// Takes the frame away, so that lines can be written above the next one.
  package mutating func clear() -> String {
    defer { drawn = 0 }
    return toTop + "\u{1B}[J"
  }

  /// Leaves the last frame on the screen and gives the cursor back.
  package mutating func finish() -> String {
    drawn = 0
    return "\u{1B}[?25h"
  }

  private var toTop: String { drawn > 0 ? "\r\u{1B}[\(drawn)A" : "\r" }

  /// For stdout that is no terminal: a line for each node whose status or state is new. Of one that
  /// runs and has a state, that is all; reasons are told as they come up.
  package mutating func changes(_ rows: [Row]) -> [String] {
    rows.compactMap { row in
      let before = shown.updateValue(row, forKey: row.node)
      guard before?.status != row.status || before?.state != row.state else { return nil }
      let isRunning = row.status == NodeLifecycle.State.running.name
      let words = [isRunning && !row.state.isEmpty ? "" : row.status, row.state.printable]
      let pid = before?.pid == row.pid ? nil : row.pid
      return "\(row.node.printable): \(words.filter { !$0.isEmpty }.joined(separator: " "))"
        + (pid.map { ", pid \($0)" } ?? "")
    }
  }

  /// The table itself. That of `ps` has more columns.
  package static func table(_ rows: [Row]) -> Table {
    var table = Table(
      .init("NODE"), .init("STATUS"), .init("PID", .right), .init("UPTIME", .right),
      .init("EVENTS", .right), .init("RESTARTS", .right), .init("STATE"), statusColumn: 1)
    for row in rows {
      table.add(
        row.node, row.status, row.pid.map(String.init) ?? "-", row.uptime?.shortText ?? "-",
        String(row.events), String(row.restarts), row.stateCell)
    }
    return table
  }
}
