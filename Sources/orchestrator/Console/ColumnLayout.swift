/// Which columns of a table are shown in a width, and how wide each is.
///
/// Columns are left out one after another until the others fit; then those that may be cut take what
/// is left.
package struct ColumnLayout: Hashable, Sendable {
  /// What a column asks for. Unit: columns of the terminal.
  package struct Column: Hashable, Sendable {
    /// The width of its widest cell.
    package var wanted: Int
    /// The width down to which it may be cut.
    package var least: Int
    /// Its place in the order in which columns are left out; `nil` where it always stays.
    package var rank: Int?

    package init(wanted: Int, least: Int? = nil, rank: Int? = nil) {
      self.wanted = wanted
      self.least = min(least ?? wanted, wanted)
      self.rank = rank
    }
  }

  /// The spaces between two columns.
  package static let gap = 2

  /// Of each column its width, or `nil` where it is left out. Together they may still be too wide.
  package private(set) var widths: [Int?]

  /// - Parameter width: `nil` where there is room for all.
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
