import PipeRuntime

/// Rows of text with headings, in aligned columns.
package struct Table: Hashable, Sendable {
  package enum Alignment: Hashable, Sendable { case left, right }

  package struct Column: Hashable, Sendable {
    package var heading: String
    package var alignment: Alignment
    /// The position of the column in the order in which a table that is too wide omits columns,
    /// lowest first; `nil` if the column is always shown.
    package var dropOrder: Int?
    /// The minimum width of a cell, in terminal columns. Cells are cut to this width before columns
    /// are omitted. By default, cells are not cut.
    package var minimumWidth: Int?
    /// Whether cells are cut at their start, because their end is more important, as in paths.
    package var keepsEnd: Bool

    package init(
      _ heading: String, _ alignment: Alignment = .left, dropOrder: Int? = nil,
      minimumWidth: Int? = nil,
      keepsEnd: Bool = false
    ) {
      self.heading = heading
      self.alignment = alignment
      self.dropOrder = dropOrder
      self.minimumWidth = minimumWidth
      self.keepsEnd = keepsEnd
    }
  }

  package var columns: [Column]
  package private(set) var rows: [[String]] = []
  /// The index of the column whose cells name phases, and are coloured accordingly; `nil` if there
  /// is none.
  package var phaseColumnIndex: Int?

  package init(_ columns: [Column], phaseColumnIndex: Int? = nil) {
    self.columns = columns
    self.phaseColumnIndex = phaseColumnIndex
  }

  package init(_ columns: Column..., phaseColumnIndex: Int? = nil) {
    self.init(columns, phaseColumnIndex: phaseColumnIndex)
  }

  /// Adds a row. Control characters in the cells are escaped.
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

  /// Returns the lines of the table, starting with the headings.
  /// - Parameters:
  ///   - width: The maximum width of the lines; `nil` for no limit. If the table is too wide,
  ///     columns are omitted and cells are cut.
  ///   - widths: The widths of the columns; if `nil`, the widths of their widest cells.
  package func lines(
    style: Style = Style(isColored: false), width: Int? = nil, widths: [Int]? = nil
  ) -> [String] {
    let layout = ColumnLayout(
      zip(columns, widths ?? self.widths).map {
        ColumnLayout.Column(
          preferredWidth: $1, minimumWidth: $0.minimumWidth, dropOrder: $0.dropOrder)
      }, in: width)
    let visible = layout.widths.enumerated().compactMap { index, width in
      width.map { (index: index, width: $0) }
    }
    let heading = line(columns.map(\.heading), visible, in: width) { _, text in style.dim(text) }
    return [heading]
      + rows.map { row in
        line(row, visible, in: width) { index, text in
          index == phaseColumnIndex ? style.colorByPhase(row[index], text) : text
        }
      }
  }

  /// - Parameter paint: Colours the text of a cell, after the width of the cell was computed. The
  ///   first argument is the index of the column.
  private func line(
    _ cells: [String], _ visible: [(index: Int, width: Int)], in width: Int?,
    paint: (Int, String) -> String
  ) -> String {
    var line = ""
    var remainingWidth = width ?? .max
    for (position, column) in visible.enumerated() {
      let keepsEnd = columns[column.index].keepsEnd
      let fullText = cells[column.index]
      let cell = keepsEnd ? fullText.cutAtStart(to: column.width) : fullText.cut(to: column.width)
      let isLast = position == visible.count - 1
      let gap = String(repeating: " ", count: column.width - cell.displayWidth)
      let isRight = columns[column.index].alignment == .right
      let text = (isRight ? gap + cell : isLast ? cell : cell + gap).cut(to: remainingWidth)
      remainingWidth -= text.displayWidth
      line += paint(column.index, text)
      guard !isLast, remainingWidth > ColumnLayout.columnGap else { break }
      line += String(repeating: " ", count: ColumnLayout.columnGap)
      remainingWidth -= ColumnLayout.columnGap
    }
    while line.last == " " { line.removeLast() }
    return line
  }
}

/// The columns of a table that fit into a width, with the width of each column.
///
/// Columns are omitted one by one, until the minimum widths of the remaining columns fit. Then the
/// remaining columns are cut to the available width.
package struct ColumnLayout: Hashable, Sendable {
  /// The requirements of a column. Unit: terminal columns.
  package struct Column: Hashable, Sendable {
    /// The width of the column's widest cell.
    package var preferredWidth: Int
    /// The minimum width to which the column can be cut.
    package var minimumWidth: Int
    /// The position of the column in the order in which a table that is too wide omits columns,
    /// lowest first; `nil` if the column is always shown.
    package var dropOrder: Int?

    package init(preferredWidth: Int, minimumWidth: Int? = nil, dropOrder: Int? = nil) {
      self.preferredWidth = preferredWidth
      self.minimumWidth = min(minimumWidth ?? preferredWidth, preferredWidth)
      self.dropOrder = dropOrder
    }
  }

  /// The number of spaces between two columns.
  package static let columnGap = 2

  /// The width of each column; `nil` if the column is omitted. The columns that are shown may still
  /// be too wide in total.
  package private(set) var widths: [Int?]

  /// - Parameter width: The available width; `nil` for no limit.
  package init(_ columns: [Column], in width: Int? = nil) {
    widths = columns.map(\.preferredWidth)
    guard let width else { return }
    func totalWidth(_ visible: [Int]) -> Int {
      visible.reduce(0, +) + Self.columnGap * max(visible.count - 1, 0)
    }
    let order = columns.indices.filter { columns[$0].dropOrder != nil }
      .sorted { columns[$0].dropOrder! < columns[$1].dropOrder! }
    for index in order {
      let minimumWidth = columns.indices.filter { widths[$0] != nil }.map {
        columns[$0].minimumWidth
      }
      if totalWidth(minimumWidth) <= width { break }
      widths[index] = nil
    }
    var excess = totalWidth(widths.compactMap(\.self)) - width
    for index in columns.indices.reversed() where excess > 0 {
      guard let preferredWidth = widths[index] else { continue }
      let cut = min(excess, preferredWidth - columns[index].minimumWidth)
      widths[index] = preferredWidth - cut
      excess -= cut
    }
  }
}
