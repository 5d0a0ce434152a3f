import PipeSupport

/// An editable line of text with a cursor. A view stores this value while the user types.
///
/// If the node's state contains the text, set ``text`` in ``TerminalView/update(_:to:size:)``. The
/// field shows typed text immediately, before the node has received the text.
public struct TerminalTextField: Hashable, Sendable {
  /// The maximum length of the text. Unit: bytes in UTF-8.
  public let byteLimit: Int
  private var textBeforeCursor = ""
  private var textAfterCursor = ""

  /// Creates a field.
  /// - Parameter byteLimit: The maximum length of the text. The excess is dropped. Unit: bytes in
  ///   UTF-8.
  public init(_ text: String = "", byteLimit: Int = 1_024) {
    self.byteLimit = byteLimit
    self.text = text
  }

  /// The text. If you set a different text, its control characters are dropped, and the cursor
  /// moves to the end of the text.
  public var text: String {
    get { textBeforeCursor + textAfterCursor }
    set {
      guard newValue != text else { return }
      (textBeforeCursor, textAfterCursor) = ("", "")
      for character in newValue where !insert(character) { break }
    }
  }

  /// The position of the cursor: the number of characters before it.
  public var cursor: Int { textBeforeCursor.count }

  /// Handles a key that inserts a character, moves the cursor or deletes characters. ^A and ^E are
  /// Home and End. ^U deletes the text before the cursor, and ^K the text after it.
  /// - Returns: Whether the field handles this key, even if nothing changes.
  public mutating func press(_ key: Key) -> Bool {
    switch key {
    case .character(let character): _ = insert(character)
    case .left:
      if let last = textBeforeCursor.popLast() { textAfterCursor = String(last) + textAfterCursor }
    case .right:
      if !textAfterCursor.isEmpty { textBeforeCursor.append(textAfterCursor.removeFirst()) }
    case .home, .control("a"): (textBeforeCursor, textAfterCursor) = ("", text)
    case .end, .control("e"): (textBeforeCursor, textAfterCursor) = (text, "")
    case .backspace: _ = textBeforeCursor.popLast()
    case .delete: if !textAfterCursor.isEmpty { textAfterCursor.removeFirst() }
    case .control("u"): textBeforeCursor = ""
    case .control("k"): textAfterCursor = ""
    default: return false
    }
    return true
  }

  /// Inserts a character before the cursor. Ignores control characters.
  /// - Returns: Whether the character fits into the byte limit.
  private mutating func insert(_ character: Character) -> Bool {
    let text = String(character)
    guard text == text.printable else { return true }
    guard textBeforeCursor.utf8.count + textAfterCursor.utf8.count + text.utf8.count <= byteLimit
    else { return false }
    textBeforeCursor += text
    return true
  }

  /// Returns the field as a line with exactly this number of columns. With the focus, the line
  /// shows the cursor and the text around it. Without the focus, the line shows the beginning of
  /// the text.
  public func line(columns: Int, isFocused: Bool) -> StyledLine {
    guard columns > 0 else { return "" }
    guard isFocused else {
      let shown = StyledLine(text, .underlined).cut(to: columns)
      return shown + Self.blank(columns - shown.width)
    }
    let under = textAfterCursor.first ?? " "
    let start = Self.end(of: textBeforeCursor, columns: max(0, columns - under.displayWidth))
    let rest = String(textAfterCursor.dropFirst()).cut(
      to: max(0, columns - start.displayWidth - under.displayWidth))
    let width = start.displayWidth + under.displayWidth + rest.displayWidth
    let whole =
      StyledLine(start, .underlined) + StyledLine(String(under), .reversed)
      + StyledLine(rest, .underlined) + Self.blank(columns - width)
    return whole.cut(to: columns)
  }

  /// Returns the longest end of the text that fits into the columns. If the beginning of the text
  /// is omitted, the result starts with an ellipsis.
  private static func end(of text: String, columns: Int) -> String {
    var keptCharacters: [Character] = []
    var width = 0
    for character in text.reversed() {
      width += character.displayWidth
      guard width <= columns else {
        // The ellipsis replaces the first kept character and the zero-width characters before it.
        while let first = keptCharacters.popLast(), first.displayWidth == 0 {}
        return columns > 0 ? "…" + String(keptCharacters.reversed()) : ""
      }
      keptCharacters.append(character)
    }
    return text
  }

  private static func blank(_ columns: Int) -> StyledLine {
    StyledLine(String(repeating: " ", count: max(0, columns)), .underlined)
  }
}

/// The field of a view that receives the keys.
public struct TerminalFocus<Field: CaseIterable & Hashable & Sendable>: Hashable, Sendable {
  /// The field that receives the keys.
  public var field: Field

  /// Creates a focus on a field.
  public init(_ field: Field) { self.field = field }

  /// Handles Tab and back tab, which move the focus to the next and the previous field. The first
  /// field follows the last field.
  /// - Returns: Whether the key moves the focus.
  public mutating func press(_ key: Key) -> Bool {
    switch key {
    case .tab: move(by: 1)
    case .backTab: move(by: -1)
    default: return false
    }
    return true
  }

  private mutating func move(by step: Int) {
    let fields = Array(Field.allCases)
    guard let index = fields.firstIndex(of: field) else { return }
    field = fields[(index + step + fields.count) % fields.count]
  }
}
