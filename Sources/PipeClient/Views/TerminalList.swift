/// Which row of a list is selected, and which rows are seen: what a view keeps of a list.
///
/// The rows themselves are the node's, and their count is given with each call: where there are fewer
/// than before, the last one is selected.
public struct TerminalList: Hashable, Sendable {
  private var row = 0
  private var first = 0

  /// Makes a list whose first row is selected.
  public init() {}

  /// The selected row, counted from 0; `nil` where there is none.
  public func selected(of count: Int) -> Int? { count > 0 ? min(row, count - 1) : nil }

  /// The rows that are seen: as before, or moved as little as shows the selected one.
  /// - Parameter height: The lines that there are for them.
  public func window(of count: Int, height: Int) -> Range<Int> {
    guard let selected = selected(of: count), height > 0 else { return 0..<0 }
    let start = min(max(min(first, count - height), selected - height + 1, 0), selected)
    return start..<min(count, start + height)
  }

  /// Selects a row, or the nearest that there is.
  public mutating func select(_ row: Int, of count: Int, height: Int) {
    self.row = max(0, min(row, count - 1))
    first = window(of: count, height: height).lowerBound
  }

  /// Takes a key that moves: up and down, a page, Home and End.
  /// - Returns: Whether it is such a key, also where it moves nothing.
  public mutating func press(_ key: Key, of count: Int, height: Int) -> Bool {
    let selected = selected(of: count) ?? 0
    switch key {
    case .up: select(selected - 1, of: count, height: height)
    case .down: select(selected + 1, of: count, height: height)
    case .pageUp: select(selected - max(1, height), of: count, height: height)
    case .pageDown: select(selected + max(1, height), of: count, height: height)
    case .home: select(0, of: count, height: height)
    case .end: select(count - 1, of: count, height: height)
    default: return false
    }
    return true
  }

  /// The lines of the rows that are seen, the selected one marked.
  /// - Parameter row: Makes the line of a row, counted from 0; called for those that are seen.
  public func lines(
    of count: Int, height: Int, row: (Int) -> StyledLine
  ) -> [StyledLine] {
    let selected = selected(of: count)
    return window(of: count, height: height).map { index in
      index == selected
        ? StyledLine("▶ ", .bold, .color(.cyan)) + row(index).adding(.bold) : "  " + row(index)
    }
  }
}

/// One of a few options, which stand beside each other.
public struct TerminalPicker<Option: CaseIterable & Hashable & Sendable>: Hashable, Sendable {
  /// The option that is picked.
  public var selected: Option

  /// Makes a picker.
  public init(_ selected: Option) { self.selected = selected }

  /// Takes a key that picks: left and right, Home and End.
  /// - Returns: Whether it is such a key, also where it picks nothing else.
  public mutating func press(_ key: Key) -> Bool {
    let options = Array(Option.allCases)
    guard let index = options.firstIndex(of: selected) else { return false }
    switch key {
    case .left: selected = options[max(0, index - 1)]
    case .right: selected = options[min(options.count - 1, index + 1)]
    case .home: selected = options[0]
    case .end: selected = options[options.count - 1]
    default: return false
    }
    return true
  }

  /// All options, the picked one in brackets; only that one where there is no room for all.
  /// - Parameter text: The text of an option. Default: its name.
  public func line(
    columns: Int, isFocused: Bool = true, text: (Option) -> String = { "\($0)" }
  ) -> StyledLine {
    var line: StyledLine = ""
    for option in Option.allCases {
      line =
        line + (option == selected ? marked(option, isFocused, text) : " \(text(option)) ")
    }
    guard line.width > columns else { return line }
    return (StyledLine("‹") + marked(selected, isFocused, text) + "›").cut(to: columns)
  }

  private func marked(
    _ option: Option, _ isFocused: Bool, _ text: (Option) -> String
  ) -> StyledLine {
    StyledLine("[\(text(option))]", .bold).adding(isFocused ? .reversed : .bold)
  }
}
