/// A table of expected values: one row per line, with `|` between the cells.
enum TextTable {
  static func rows(_ text: String) -> [[String]] {
    text.split(separator: "\n").map { line in
      line.split(separator: "|", omittingEmptySubsequences: false).map(trimmed)
    }
  }

  private static func trimmed(_ cell: Substring) -> String {
    var cell = cell
    while cell.first == " " { cell.removeFirst() }
    while cell.last == " " { cell.removeLast() }
    return String(cell)
  }
}
