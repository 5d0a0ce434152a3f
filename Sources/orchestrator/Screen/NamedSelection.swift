import PipeRuntime

/// Which row of a list is selected, by its name: where rows come, go or change places, the selection stays with
/// the one that was chosen.
package struct NamedSelection: Hashable, Sendable {
  /// Where new rows come, if they are what is looked at.
  package enum Newest: Hashable, Sendable { case nowhere, first, last }

  private let newest: Newest
  /// `nil` before there was one, and while the newest row is selected, whichever that is.
  private var name: String?
  /// Where the chosen one was when it was last seen.
  private var row = 0
  private var first = 0

  package init(newest: Newest = .nowhere) { self.newest = newest }

  /// The selected row, counted from 0; `nil` where there is none. Where the one that was chosen has gone, it is
  /// the one in its place.
  package func row(in names: [String]) -> Int? {
    guard !names.isEmpty else { return nil }
    guard let name else { return newest == .last ? names.count - 1 : 0 }
    return names.firstIndex(of: name) ?? min(row, names.count - 1)
  }

  /// The rows that are seen: as before, or moved as little as shows the selected one.
  package func window(of names: [String], height: Int) -> Range<Int> {
    guard let selected = row(in: names), height > 0 else { return 0..<0 }
    let start = min(max(min(first, names.count - height), selected - height + 1, 0), selected)
    return start..<min(names.count, start + height)
  }

  /// Notes where the selected row is, since the next rows may be without it.
  package mutating func settle(in names: [String], height: Int) {
    guard let row = row(in: names) else { return }
    self.row = row
    if name != nil || newest == .nowhere { name = names[row] }
    first = window(of: names, height: height).lowerBound
  }

  /// Selects the row that is so many rows further, or the last one on the way there.
  package mutating func move(by rows: Int, in names: [String], height: Int) {
    guard let row = row(in: names) else { return }
    self.row = max(0, min(row + rows, names.count - 1))
    let isNewest =
      switch newest {
      case .nowhere: false
      case .first: self.row == 0
      case .last: self.row == names.count - 1
      }
    name = isNewest ? nil : names[self.row]
    settle(in: names, height: height)
  }

  /// Takes a key that moves.
  /// - Returns: Whether it is one.
  package mutating func press(_ key: Key, in names: [String], height: Int) -> Bool {
    switch key {
    case .up, .character("k"): move(by: -1, in: names, height: height)
    case .down, .character("j"): move(by: 1, in: names, height: height)
    case .pageUp: move(by: -max(1, height), in: names, height: height)
    case .pageDown: move(by: max(1, height), in: names, height: height)
    case .home, .character("g"): move(by: -names.count, in: names, height: height)
    case .end, .character("G"): move(by: names.count, in: names, height: height)
    default: return false
    }
    return true
  }
}
