import PipeRuntime
import PipeSupervision

/// A table of nodes that redraws in place on a terminal. It only renders: the text that comes back
/// is for the caller to write.
package struct LiveView: Sendable {
  private let style: Style
  /// The lines of the frame on the screen.
  private var drawn = 0
  private var shown: [String: NodeRow] = [:]
  private var widths = Widths()

  /// How wide the table's columns have been: with every state they would move otherwise, and come and
  /// go where there is little room.
  private struct Widths: Hashable, Sendable {
    private var columns = 0
    private var statuses: [String] = []
    private var widest: [Int] = []

    /// They start anew where the terminal's width changes, or a node's status.
    mutating func widen(by table: Table, _ rows: [NodeRow], columns: Int) -> [Int] {
      let statuses = rows.map(\.status)
      if columns != self.columns || statuses != self.statuses { widest = [] }
      (self.columns, self.statuses) = (columns, statuses)
      widest = widest.isEmpty ? table.widths : zip(widest, table.widths).map(max)
      return widest
    }
  }

  package init(style: Style) { self.style = style }

  /// A frame over the one before, at most `columns` wide and one less than `rows` high.
  package mutating func frame(
    title: String, rows: [NodeRow], footer: String = "", columns: Int, rows height: Int
  ) -> String {
    var lines = [style.bold(title.printable.cut(to: columns))]
    let all = NodeRow.liveTable(rows)
    let table = all.lines(
      style: style, width: columns, widths: widths.widen(by: all, rows, columns: columns))
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
    // Without the cursor while it moves: whatever ends or suspends the process between two frames, it is there.
    return "\u{1B}[?25l" + toTop + lines.map { $0 + "\u{1B}[K\n" }.joined() + "\u{1B}[J\u{1B}[?25h"
  }

  /// Takes the frame away, so that lines can be written above the next one.
  package mutating func clear() -> String {
    defer { drawn = 0 }
    return toTop + "\u{1B}[J"
  }

  /// Leaves the last frame on the screen: the next one is drawn below it.
  package mutating func leaveFrame() { drawn = 0 }

  private var toTop: String { drawn > 0 ? "\r\u{1B}[\(drawn)A" : "\r" }

  /// For stdout that is no terminal: a line for each node whose status or state is new. Of one that
  /// runs and has a state, that is all; reasons are told as they come up.
  package mutating func changes(_ rows: [NodeRow]) -> [String] {
    rows.compactMap { row in
      let before = shown.updateValue(row, forKey: row.node)
      guard before?.status != row.status || before?.state != row.state else { return nil }
      let isRunning = row.status == NodeLifecycle.State.running.name
      let words = [isRunning && !row.state.isEmpty ? "" : row.status, row.state.printable]
      let pid = before?.process?.pid == row.process?.pid ? nil : row.process?.pid
      return "\(row.node.printable): \(words.filter { !$0.isEmpty }.joined(separator: " "))"
        + (pid.map { ", pid \($0)" } ?? "")
    }
  }
}
