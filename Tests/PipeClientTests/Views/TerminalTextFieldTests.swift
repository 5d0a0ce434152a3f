import PipeClient
import Testing

@Suite("A text field on a terminal")
struct TerminalTextFieldTests {
  @Test(
    "Keys insert, move and delete at the cursor",
    arguments: [
      ([.character("a"), .character("b")], "ab", 2),
      ([.character("a"), .character("b"), .left, .character("x")], "axb", 2),
      ([.character("a"), .left, .left, .character("x")], "xa", 1),
      ([.character("a"), .right, .character("b")], "ab", 2),
      (
        [.character("a"), .character("b"), .home, .character("x"), .end, .character("y")], "xaby", 4
      ),
      ([.character("a"), .character("b"), .left, .backspace], "b", 0),
      ([.character("a"), .character("b"), .left, .delete], "a", 1),
      ([.backspace, .delete], "", 0),
      ([.character("a"), .character("b"), .left, .control("u")], "b", 0),
      ([.character("a"), .character("b"), .left, .control("k")], "a", 1),
      ([.character("e"), .character("\u{301}"), .backspace], "", 0),
      ([.character("戸"), .character("q"), .control("a"), .delete], "q", 0),
    ] as [([Key], String, Int)])
  func edits(keys: [Key], text: String, cursor: Int) {
    var field = TerminalTextField()
    for key in keys { #expect(field.press(key) == true, "\(key)") }
    #expect(field.text == text)
    #expect(field.cursor == cursor)
  }

  @Test(
    "A text field ignores keys that do not edit text",
    arguments: [
      Key.enter, .tab, .backTab, .escape, .up, .down, .pageUp, .control("x"), .alternate("a"),
      .function(1), .insert,
    ])
  func others(key: Key) {
    var field = TerminalTextField("abc")
    #expect(field.press(key) == false)
    #expect(field == TerminalTextField("abc"))
  }

  @Test(
    "A new text replaces the typed text, and setting the same text keeps the cursor")
  func set() {
    var field = TerminalTextField("abc")
    _ = field.press(.left)
    field.text = "abc"
    #expect(field.cursor == 2)
    field.text = "\u{1B}[31mred\n"
    #expect(field.text == "[31mred")
    #expect(field.cursor == 7)
  }

  @Test("A text field cuts a MiB of input to its limit, and the next key still works")
  func flooded() {
    var parser = KeyParser()
    var field = TerminalTextField(byteLimit: 100)
    let bytes = (0..<(1 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    for key in parser.take(bytes) { _ = field.press(key) }
    for key in parser.handlePause() { _ = field.press(key) }
    #expect(field.text.utf8.count <= 100)
    #expect(field.text == StyledLine(field.text).description)
    while !field.text.isEmpty { _ = field.press(field.cursor > 0 ? .backspace : .delete) }
    #expect(field.press(.character("x")) == true)
    #expect(field.text == "x")
    field.text = String(repeating: "y", count: 1 << 20)
    #expect(field.text == String(repeating: "y", count: 100))
    // A single character with very many marks is limited, too.
    field.text = ""
    for key in [Key.character("e")] + Array(repeating: .character("\u{301}"), count: 1_000) {
      _ = field.press(key)
    }
    #expect(field.text.utf8.count <= 100)
  }

  @Test("A text field is drawn around its cursor within its columns")
  func drawn() {
    var field = TerminalTextField("0123456789")
    #expect(field.line(columns: 12, isFocused: true).description == "0123456789  ")
    #expect(field.line(columns: 6, isFocused: true).description == "…6789 ")
    #expect(field.line(columns: 6, isFocused: false).description == "01234…")
    #expect(field.line(columns: 12, isFocused: false).description == "0123456789  ")
    _ = field.press(.home)
    #expect(field.line(columns: 6, isFocused: true).description == "01234…")
    for _ in 1...4 { _ = field.press(.right) }
    #expect(field.line(columns: 6, isFocused: true).description == "01234…")
    _ = field.press(.right)
    #expect(field.line(columns: 6, isFocused: true).description == "012345")
    _ = field.press(.right)
    #expect(field.line(columns: 6, isFocused: true).description == "…23456")
    let cursor = field.line(columns: 6, isFocused: true).spans.filter {
      $0.styles.contains(.reversed)
    }
    #expect(cursor.map(\.text) == ["6"])
  }

  @Test(
    "A text field never exceeds its columns, whatever its characters",
    arguments: ["", "abc", "戸口戸口戸口", "e\u{301}e\u{301}e\u{301}", "👍🏽👍🏽", "a\u{200B}\u{200B}b", "❤️x"])
  func columns(text: String) {
    var field = TerminalTextField(text)
    while true {
      for columns in 0...12 {
        #expect(field.line(columns: columns, isFocused: true).width <= columns)
        #expect(field.line(columns: columns, isFocused: false).width <= columns)
      }
      if field.cursor == 0 { break }
      _ = field.press(.left)
    }
  }
}
