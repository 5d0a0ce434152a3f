import PipeSupport

/// A line of text that is edited, with a cursor: what a view keeps while somebody types.
///
/// Where the text comes from the node, set ``text`` in ``TerminalView/update(_:to:size:)``; what has been
/// typed stays until then, so nothing that is on its way to the node reverts.
public struct TerminalTextField: Hashable, Sendable {
  /// The longest text. Unit: bytes in UTF-8.
  public let byteLimit: Int
  private var before = ""
  private var after = ""

  /// Makes a field.
  /// - Parameter byteLimit: The longest text; what does not fit is not taken. Unit: bytes in UTF-8.
  public init(_ text: String = "", byteLimit: Int = 1_024) {
    self.byteLimit = byteLimit
    self.text = text
  }

  /// The text. Another one is set without its control characters, and puts the cursor at its end.
  public var text: String {
    get { before + after }
    set {
      guard newValue != text else { return }
      (before, after) = ("", "")
      for character in newValue where !insert(character) { break }
    }
  }

  /// Where the cursor is. Unit: characters before it.
  public var cursor: Int { before.count }

  /// Takes a key that writes, moves or deletes: also ^A and ^E for Home and End, ^U and ^K to delete all
  /// before and behind the cursor.
  /// - Returns: Whether it is such a key, also where it changes nothing.
  public mutating func press(_ key: Key) -> Bool {
    switch key {
    case .character(let character): _ = insert(character)
    case .left: if let last = before.popLast() { after = String(last) + after }
    case .right: if !after.isEmpty { before.append(after.removeFirst()) }
    case .home, .control("a"): (before, after) = ("", text)
    case .end, .control("e"): (before, after) = (text, "")
    case .backspace: _ = before.popLast()
    case .delete: if !after.isEmpty { after.removeFirst() }
    case .control("u"): before = ""
    case .control("k"): after = ""
    default: return false
    }
    return true
  }

  /// Puts a character before the cursor; a control character is left out.
  /// - Returns: Whether there was room.
  private mutating func insert(_ character: Character) -> Bool {
    let text = String(character)
    guard text == text.printable else { return true }
    guard before.utf8.count + after.utf8.count + text.utf8.count <= byteLimit else { return false }
    before += text
    return true
  }

  /// The field in exactly so many columns: with the cursor, and the text around it, where keys come to
  /// it, and else the beginning of the text.
  public func line(columns: Int, isFocused: Bool) -> StyledLine {
    guard columns > 0 else { return "" }
    guard isFocused else {
      let shown = StyledLine(text, .underlined).cut(to: columns)
      return shown + Self.blank(columns - shown.width)
    }
    let under = after.first ?? " "
    let start = Self.end(of: before, columns: max(0, columns - under.displayWidth))
    let rest = String(after.dropFirst()).cut(
      to: max(0, columns - start.displayWidth - under.displayWidth))
    let width = start.displayWidth + under.displayWidth + rest.displayWidth
    let whole =
      StyledLine(start, .underlined) + StyledLine(String(under), .reversed)
      + StyledLine(rest, .underlined) + Self.blank(columns - width)
    return whole.cut(to: columns)
  }

  /// As much of the end as fits, with an ellipsis where something is left out.
  private static func end(of text: String, columns: Int) -> String {
    var kept: [Character] = []
    var width = 0
    for character in text.reversed() {
      width += character.displayWidth
      guard width <= columns else {
        // The ellipsis takes the place of the first one, and of marks before it.
        while let first = kept.popLast(), first.displayWidth == 0 {}
        return columns > 0 ? "…" + String(kept.reversed()) : ""
      }
      kept.append(character)
    }
    return text
  }

  private static func blank(_ columns: Int) -> StyledLine {
    StyledLine(String(repeating: " ", count: max(0, columns)), .underlined)
  }
}

/// Which of a view's fields keys go to.
public struct TerminalFocus<Field: CaseIterable & Hashable & Sendable>: Hashable, Sendable {
  /// The field.
  public var field: Field

  /// Makes one.
  public init(_ field: Field) { self.field = field }

  /// Takes Tab, which goes to the next field, and back tab. Behind the last one is the first one.
  /// - Returns: Whether it is such a key.
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
