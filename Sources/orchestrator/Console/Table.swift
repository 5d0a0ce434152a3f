import PipeRuntime

/// Rows of text under headings, in aligned columns.
package struct Table: Hashable, Sendable {
  package enum Alignment: Hashable, Sendable { case left, right }

  package struct Column: Hashable, Sendable {
    package var heading: String
    package var alignment: Alignment
    /// The position in the order in which columns are left out when the table is too wide; `nil` if
    /// the column always stays.
    package var rank: Int?
    /// The smallest width to which cells may be cut before columns are left out. Unit: terminal
    /// columns. Default: cells are not cut.
    package var least: Int?
    /// Whether cells are cut at their start, because their end matters most, as with paths.
    package var keepsEnd: Bool

    package init(
      _ heading: String, _ alignment: Alignment = .left, rank: Int? = nil, least: Int? = nil,
      keepsEnd: Bool = false
    ) {
      self.heading = heading
      self.alignment = alignment
      self.rank = rank
      self.least = least
      self.keepsEnd = keepsEnd
    }
  }

  package var columns: [Column]
  package private(set) var rows: [[String]] = []
  /// The column whose words are coloured as a node's status.
  package var statusColumn: Int?

  package init(_ columns: [Column], statusColumn: Int? = nil) {
    self.columns = columns
    self.statusColumn = statusColumn
  }

  package init(_ columns: Column..., statusColumn: Int? = nil) {
    self.init(columns, statusColumn: statusColumn)
  }

  /// Adds a row, and escapes control characters in it.
  package mutating func add(_ cells: [String]) {
    precondition(cells.count == columns.count, "a row must have one cell for each column")
    rows.append(cells.map(\.printable))
  }

  /// Adds a row.
  package mutating func add(_ cells: String...) { add(cells) }

  /// The width of the widest cell of each column, including the heading.
  package var widths: [Int] {
    var widths = columns.map(\.heading.displayWidth)
    for row in rows {
      for (index, cell) in row.enumerated() {
        widths[index] = max(widths[index], cell.displayWidth)
      }
    }
    return widths
  }

  /// The table's lines, headings first.
  /// - Parameters:
  ///   - width: The width of the lines, reached by leaving columns out and cutting cells; `nil` for no limit.
  ///   - widths: The widths of the columns; `nil` to derive them from the cells.
  package func lines(
    style: Style = Style(isColored: false), width: Int? = nil, widths: [Int]? = nil
  ) -> [String] {
    let layout = ColumnLayout(
      zip(columns, widths ?? self.widths).map {
        ColumnLayout.Column(wanted: $1, least: $0.least, rank: $0.rank)
      }, in: width)
    let shown = layout.widths.enumerated().compactMap { index, width in
      width.map { (index: index, width: $0) }
    }
    let heading = line(columns.map(\.heading), shown, in: width) { _, text in style.dim(text) }
    return [heading]
      + rows.map { row in
        line(row, shown, in: width) { index, text in
          index == statusColumn ? style.status(row[index], text) : text
        }
      }
  }

  /// - Parameter paint: Colours a cell after its width is computed.
  private func line(
    _ cells: [String], _ shown: [(index: Int, width: Int)], in width: Int?,
    paint: (Int, String) -> String
  ) -> String {
    var line = ""
    var room = width ?? .max
    for (place, column) in shown.enumerated() {
      let keepsEnd = columns[column.index].keepsEnd
      let whole = cells[column.index]
      let cell = keepsEnd ? whole.cutAtStart(to: column.width) : whole.cut(to: column.width)
      let isLast = place == shown.count - 1
      let gap = String(repeating: " ", count: column.width - cell.displayWidth)
      let isRight = columns[column.index].alignment == .right
      let text = (isRight ? gap + cell : isLast ? cell : cell + gap).cut(to: room)
      room -= text.displayWidth
      line += paint(column.index, text)
      guard !isLast, room > ColumnLayout.gap else { break }
      line += String(repeating: " ", count: ColumnLayout.gap)
      room -= ColumnLayout.gap
    }
    while line.last == " " { line.removeLast() }
    return line
  }
}

/// The columns of a table that fit into a width, and the width of each.
///
/// Columns are left out one after another until the rest fits. Then the columns that may be cut
/// share the remaining width.
package struct ColumnLayout: Hashable, Sendable {
  /// The requirements of a column. Unit: terminal columns.
  package struct Column: Hashable, Sendable {
    /// The width of its widest cell.
    package var wanted: Int
    /// The smallest width to which it may be cut.
    package var least: Int
    /// The position in the order in which columns are left out; `nil` if the column always stays.
    package var rank: Int?

    package init(wanted: Int, least: Int? = nil, rank: Int? = nil) {
      self.wanted = wanted
      self.least = min(least ?? wanted, wanted)
      self.rank = rank
    }
  }

  /// The spaces between two columns.
  package static let gap = 2

  /// The width of each column, or `nil` if it is left out. Together they may still be too wide.
  package private(set) var widths: [Int?]

  /// - Parameter width: `nil` for no limit.
  package init(_ columns: [Column], in width: Int? = nil) {
    widths = columns.map(\.wanted)
    guard let width else { return }
    func total(_ shown: [Int]) -> Int { shown.reduce(0, +) + Self.gap * max(shown.count - 1, 0) }
    let order = columns.indices.filter { columns[$0].rank != nil }
      .sorted { columns[$0].rank! < columns[$1].rank! }
    for index in order {
      let least = columns.indices.filter { widths[$0] != nil }.map { columns[$0].least }
      if total(least) <= width { break }
      widths[index] = nil
    }
    var excess = total(widths.compactMap(\.self)) - width
    for index in columns.indices.reversed() where excess > 0 {
      guard let wanted = widths[index] else { continue }
      let cut = min(excess, wanted - columns[index].least)
      widths[index] = wanted - cut
      excess -= cut
    }
  }
}
