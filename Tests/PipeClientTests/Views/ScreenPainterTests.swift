import PipeClient
import Testing

@Suite("Drawing on a terminal")
struct ScreenPainterTests {
  private let size = TerminalSize(columns: 10, rows: 3)

  @Test("Only lines that have changed are drawn")
  func differences() {
    var painter = ScreenPainter(isColored: true)
    #expect(
      painter.paint(["one", "two"], size: size)
        == "\u{1B}[0m\u{1B}[2J\u{1B}[1;1Hone\u{1B}[K\u{1B}[2;1Htwo\u{1B}[K")
    #expect(painter.paint(["one", "two"], size: size) == "")
    #expect(
      painter.paint(["one", "2", "3"], size: size) == "\u{1B}[2;1H2\u{1B}[K\u{1B}[3;1H3\u{1B}[K")
    #expect(painter.paint(["one"], size: size) == "\u{1B}[2;1H\u{1B}[K\u{1B}[3;1H\u{1B}[K")
    painter.forget()
    #expect(painter.paint([], size: size) == "\u{1B}[0m\u{1B}[2J")
  }

  @Test("A drawing is cut to the terminal's columns and rows")
  func cut() {
    var painter = ScreenPainter(isColored: false)
    let text = painter.paint(
      ["0123456789", "0123456789a", "戸戸戸戸戸戸", "no room"], size: size)
    #expect(
      text == "\u{1B}[0m\u{1B}[2J\u{1B}[1;1H0123456789\u{1B}[2;1H012345678…"
        + "\u{1B}[3;1H戸戸戸戸…\u{1B}[K")
  }

  @Test("Styles are escape sequences, without colors if colors are disabled")
  func styles() {
    let line: StyledLine = "a" + StyledLine("b", .bold, .color(.green)) + StyledLine("c", .reversed)
    var colored = ScreenPainter(isColored: true)
    #expect(
      colored.paint([line], size: size).hasSuffix(
        "a\u{1B}[1;32mb\u{1B}[0m\u{1B}[7mc\u{1B}[0m\u{1B}[K"))
    var plain = ScreenPainter(isColored: false)
    #expect(
      plain.paint([line], size: size).hasSuffix("a\u{1B}[1mb\u{1B}[0m\u{1B}[7mc\u{1B}[0m\u{1B}[K"))
    #expect(line.description == "abc")
  }

  @Test(
    "Control characters are removed, and widths match a terminal",
    arguments: [
      ("plain", 5), ("戸口", 4), ("e\u{301}", 1), ("👍🏽", 2), ("❤️", 2), ("🇩🇪", 2), ("a\u{200B}b", 2),
      ("\u{1B}[31m", 5), ("✓…│", 3), ("👨‍👩‍👧", 2),
    ])
  func widths(text: String, width: Int) {
    #expect(StyledLine(text).width == width)
    #expect(!StyledLine(text).description.contains("\u{1B}"))
    for columns in 0...6 {
      let cut = StyledLine(text).cut(to: columns)
      #expect(cut.width <= columns)
      #expect(width > columns || cut == StyledLine(text))
    }
  }
}
