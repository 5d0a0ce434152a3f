import PipeRuntime

/// Rows of text under headings, in aligned columns.
package struct Table: Hashable, Sendable {
  package enum Alignment: Hashable, Sendable { case left, right }

  package struct Column: Hashable, Sendable {
    package var heading: String
    package var alignment: Alignment

    package init(_ heading: String, _ alignment: Alignment = .left) {
      self.heading = heading
      self.alignment = alignment
    }
  }

  package var columns: [Column]
  package private(set) var rows: [[String]] = []
  /// The column whose words are coloured as a node's status.
  package var statusColumn: Int?

  package init(_ columns: Column..., statusColumn: Int? = nil) {
    self.columns = columns
    self.statusColumn = statusColumn
  }

  /// Adds a row; control characters in it are made harmless.
  package mutating func add(_ cells: String...) {
    precondition(cells.count == columns.count, "a row has as many cells as there are columns")
    rows.append(cells.map(\.printable))
  }

  /// The table's lines, headings first, each cut to the width where one is given.
  package func lines(style: Style = Style(isColored: false), width: Int? = nil) -> [String] {
    var widths = columns.map(\.heading.displayWidth)
    for row in rows {
      for (index, cell) in row.enumerated() {
        widths[index] = max(widths[index], cell.displayWidth)
      }
    }
    let heading = line(columns.map(\.heading), widths, width: width) { _, text in style.dim(text) }
    return [heading]
      + rows.map { row in
        line(row, widths, width: width) { index, text in
          index == statusColumn ? style.status(row[index], text) : text
        }
      }
  }

  /// - Parameter paint: Colours a cell after its width is settled.
  private func line(
    _ cells: [String], _ widths: [Int], width: Int?, paint: (Int, String) -> String
  ) -> String {
    var line = ""
    var room = width ?? .max
    for (index, cell) in cells.enumerated() {
      let isLast = index == cells.count - 1
      let gap = String(repeating: " ", count: widths[index] - cell.displayWidth)
      let isRight = columns[index].alignment == .right
      let text = (isRight ? gap + cell : isLast ? cell : cell + gap).cut(to: room)
      room -= text.displayWidth
      line += paint(index, text)
      guard !isLast, room > 2 else { break }
      line += "  "
      room -= 2
    }
    while line.last == " " { line.removeLast() }
    return line
  }
}
