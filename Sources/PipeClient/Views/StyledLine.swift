/// A line of text for a terminal, with styles.
///
/// ```swift
/// let line: StyledLine = "The door is " + StyledLine("open", .bold, .color(.green))
/// ```
public struct StyledLine: Hashable, Sendable, ExpressibleByStringInterpolation,
  CustomStringConvertible
{
  /// A part of a line, which has the same styles throughout.
  public struct Span: Hashable, Sendable {
    /// The text. Control characters in it are replaced by `\u{FFFD}`.
    public var text: String
    /// The styles of the text.
    public var styles: Set<TextStyle>
  }

  /// The parts, from left to right.
  public private(set) var spans: [Span]

  /// Creates a line with the same styles throughout.
  public init(_ text: String, _ styles: TextStyle...) {
    spans = text.isEmpty ? [] : [Span(text: text.printable, styles: Set(styles))]
  }

  /// Creates a line without styles.
  public init(stringLiteral value: String) { self.init(value) }

  /// Returns a line that consists of the left line, followed by the right line.
  public static func + (left: StyledLine, right: StyledLine) -> StyledLine {
    var line = left
    line.spans += right.spans
    return line
  }

  /// Returns the line with a style added to all its parts.
  public func adding(_ style: TextStyle) -> StyledLine {
    var line = self
    for index in line.spans.indices { line.spans[index].styles.insert(style) }
    return line
  }

  /// The text without styles.
  public var description: String { spans.map(\.text).joined() }

  /// The number of columns that the line occupies.
  public var width: Int { spans.reduce(0) { $0 + $1.text.displayWidth } }

  /// Returns the line, cut to a number of columns. If the line was cut, it ends with an ellipsis.
  public func cut(to columns: Int) -> StyledLine {
    guard width > columns else { return self }
    var line = StyledLine("")
    guard columns > 0 else { return line }
    var left = columns - 1
    for span in spans {
      var part = Span(text: "", styles: span.styles)
      var isFull = false
      for character in span.text {
        left -= character.displayWidth
        isFull = left < 0
        if isFull { break }
        part.text.append(character)
      }
      if isFull { part.text += "…" }
      line.spans.append(part)
      if isFull { break }
    }
    return line
  }
}

/// A style of text on a terminal.
public enum TextStyle: Hashable, Sendable {
  case bold
  case dim
  case underlined
  /// Foreground and background are exchanged.
  case reversed
  case color(TerminalColor)
}

/// The colours that every terminal with colours has.
public enum TerminalColor: Int, Hashable, Sendable, CaseIterable {
  case black
  case red
  case green
  case yellow
  case blue
  case magenta
  case cyan
  case white
}

extension StyledLine {
  /// Returns the line with the escape sequences of its styles.
  /// - Parameter isColored: Whether colours are shown. Other styles are always shown.
  func encoded(isColored: Bool) -> String {
    spans.map { span in
      let codes = span.styles.compactMap { $0.code(isColored: isColored) }.sorted()
      guard !codes.isEmpty else { return span.text }
      return "\u{1B}[\(codes.map(String.init).joined(separator: ";"))m\(span.text)\u{1B}[0m"
    }.joined()
  }
}

extension TextStyle {
  fileprivate func code(isColored: Bool) -> Int? {
    switch self {
    case .bold: 1
    case .dim: 2
    case .underlined: 4
    case .reversed: 7
    case .color(let color): isColored ? 30 + color.rawValue : nil
    }
  }
}
