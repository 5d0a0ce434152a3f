/// The selected row and the visible range of a list. A view stores one such value for each list on
/// its screen.
///
/// The rows themselves are in the node's state, so the number of rows is passed to each call. If
/// the selected row no longer exists, the last row is selected.
public struct TerminalList: Hashable, Sendable {
  private var selectedRow = 0
  private var firstVisibleRow = 0

  /// Creates a list whose first row is selected.
  public init() {}

  /// Returns the selected row, counted from 0; `nil` if the list is empty.
  public func selected(of count: Int) -> Int? { count > 0 ? min(selectedRow, count - 1) : nil }

  /// Returns the range of the visible rows. The list scrolls as little as possible to make the
  /// selected row visible.
  /// - Parameter height: The number of lines that are available for rows.
  public func visibleRows(of count: Int, height: Int) -> Range<Int> {
    guard let selected = selected(of: count), height > 0 else { return 0..<0 }
    let start = min(max(min(firstVisibleRow, count - height), selected - height + 1, 0), selected)
    return start..<min(count, start + height)
  }

  /// Selects a row or, if the list does not have this row, the nearest row.
  public mutating func select(_ row: Int, of count: Int, height: Int) {
    self.selectedRow = max(0, min(row, count - 1))
    firstVisibleRow = visibleRows(of: count, height: height).lowerBound
  }

  /// Handles a key that moves the selection: up, down, page up, page down, Home and End.
  /// - Returns: Whether the key is one of these keys. Also `true` if the selection stays the same,
  ///   for example at the end of the list.
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

  /// Returns the lines of the visible rows. The selected row is marked.
  /// - Parameter row: Returns the line of a row, counted from 0. Called only for visible rows.
  public func lines(
    of count: Int, height: Int, row: (Int) -> StyledLine
  ) -> [StyledLine] {
    let selected = selected(of: count)
    return visibleRows(of: count, height: height).map { index in
      index == selected
        ? StyledLine("▶ ", .bold, .color(.cyan)) + row(index).adding(.bold) : "  " + row(index)
    }
  }
}

/// A selection of one option among a few options, which are shown side by side.
public struct TerminalPicker<Option: CaseIterable & Hashable & Sendable>: Hashable, Sendable {
  /// The selected option.
  public var selected: Option

  /// Creates a picker.
  public init(_ selected: Option) { self.selected = selected }

  /// Handles a key that changes the selection: left, right, Home and End.
  /// - Returns: Whether the key is one of these keys. Also `true` if the selection stays the same,
  ///   for example at the last option.
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

  /// Returns all options in one line, with the selected option in brackets. If the options do not
  /// all fit, returns only the selected option.
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
