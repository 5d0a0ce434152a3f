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
