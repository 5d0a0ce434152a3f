import PipeRuntime

/// A sort order for the rows of a list: one column of the list's table, and a direction.
package struct ScreenOrder: Hashable, Sendable {
  /// The index of the column.
  package var column: Int
  /// Whether the order is the opposite of the usual order of the column.
  package var isReversed = false

  package init(column: Int, isReversed: Bool = false) {
    self.column = column
    self.isReversed = isReversed
  }

  /// Returns the order by the next column. After the last column, returns `nil`, which means the
  /// order of the topology.
  package static func next(after order: ScreenOrder?, columns: Int) -> ScreenOrder? {
    let column = order.map { $0.column + 1 } ?? 0
    return column < columns ? ScreenOrder(column: column) : nil
  }

  /// A cell as a value that can be compared.
  private enum Value: Comparable {
    case number(Double)
    case text(String)
  }

  /// Returns whether the usual order of a column is descending. Numbers and fill levels start with
  /// the largest value. Texts start with A, and phases start with the worst phase.
  private static func isDescending(_ column: Table.Column) -> Bool {
    column.alignment == .right || column.heading == "FILL"
  }

  private static func value(of cell: String, in column: Table.Column) -> Value {
    switch column.heading {
    case "FILL": .number(Double(cell.count { $0 == "■" }))
    case "STATUS": .number(Double(rank(ofPhase: cell)))
    default: column.alignment == .right ? .number(number(cell) ?? -1) : .text(cell)
    }
  }

  /// Reads a number such as `12` or `1.2k`.
  private static func number(_ text: String) -> Double? {
    let factors: [Character: Double] = ["k": 1e3, "M": 1e6, "G": 1e9]
    guard let last = text.last, let factor = factors[last] else { return Double(text) }
    return Double(text.dropLast()).map { $0 * factor }
  }

  private static func rank(ofPhase phase: String) -> Int {
    switch phase {
    case "failed", "lost": 0
    case "in doubt": 1
    case "blocked": 2
    case "running": 4
    case "stopped", "held", "completed": 5
    default: 3
    }
  }

  /// Returns the indices of the rows in this order. Rows with equal cells stay in the order of the
  /// topology.
  package func indices(of table: Table) -> [Int] {
    guard table.columns.indices.contains(column) else { return Array(table.rows.indices) }
    let column = table.columns[column]
    let values = table.rows.map { Self.value(of: $0[self.column], in: column) }
    let isDescending = Self.isDescending(column) != isReversed
    return values.indices.sorted { one, other in
      values[one] == values[other]
        ? one < other : (values[one] < values[other]) != isDescending
    }
  }

  /// Describes the order by a column with this heading, such as `sorted by EV/S, largest first`.
  func wording(_ column: Table.Column) -> String {
    let first =
      if column.heading == "STATUS" {
        isReversed ? "worst last" : "worst first"
      } else if Self.isDescending(column) {
        isReversed ? "smallest first" : "largest first"
      } else {
        isReversed ? "from Z to A" : "from A to Z"
      }
    return "sorted by \(column.heading), \(first); o: next column, O: reverse"
  }

  /// Returns the mark in the column's heading: ▼ for a descending order, ▲ for an ascending order.
  func mark(_ column: Table.Column) -> String {
    Self.isDescending(column) != isReversed ? "▼" : "▲"
  }
}
