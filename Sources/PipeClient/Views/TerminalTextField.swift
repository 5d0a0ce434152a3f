import PipeSupport

/// An editable line of text with a cursor: the part of a text that a view keeps while a user types.
///
/// If the text comes from the node, set ``text`` in ``TerminalView/update(_:to:size:)``. The typed
/// text stays until then, so text that is on its way to the node does not revert.
public struct TerminalTextField: Hashable, Sendable {
  /// The maximum length of the text. Unit: bytes in UTF-8.
  public let byteLimit: Int
  private var before = ""
  private var after = ""

  /// Makes a field.
  /// - Parameter byteLimit: The maximum length of the text. Text beyond it is dropped. Unit: bytes in UTF-8.
  public init(_ text: String = "", byteLimit: Int = 1_024) {
    self.byteLimit = byteLimit
    self.text = text
  }

  /// The text. Setting another text drops its control characters, and moves the cursor to its end.
  public var text: String {
    get { before + after }
    set {
      guard newValue != text else { return }
      (before, after) = ("", "")
      for character in newValue where !insert(character) { break }
    }
  }

  /// The position of the cursor. Unit: characters before it.
  public var cursor: Int { before.count }

  /// Handles a key that writes, moves the cursor or deletes. ^A and ^E are Home and End; ^U and ^K
  /// delete all text before and after the cursor.
  /// - Returns: Whether the key is one of these, even if it changes nothing.
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

  /// Inserts a character before the cursor. Ignores a control character.
  /// - Returns: Whether the character fits.
  private mutating func insert(_ character: Character) -> Bool {
    let text = String(character)
    guard text == text.printable else { return true }
    guard before.utf8.count + after.utf8.count + text.utf8.count <= byteLimit else { return false }
    before += text
    return true
  }

  /// Returns the field in exactly this number of columns: if it is focused, the cursor with the
  /// text around it, otherwise the beginning of the text.
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

  /// Returns as much of the text's end as fits, with an ellipsis if text is left out.
  private static func end(of text: String, columns: Int) -> String {
    var kept: [Character] = []
    var width = 0
    for character in text.reversed() {
      width += character.displayWidth
      guard width <= columns else {
        // The ellipsis replaces the first character, and zero-width marks before it.
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

/// The field of a view that receives keys.
public struct TerminalFocus<Field: CaseIterable & Hashable & Sendable>: Hashable, Sendable {
  /// The field that receives keys.
  public var field: Field

  /// Makes a focus on a field.
  public init(_ field: Field) { self.field = field }

  /// Handles Tab, which moves to the next field, and back tab. After the last field comes the first.
  /// - Returns: Whether the key is one of these.
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
