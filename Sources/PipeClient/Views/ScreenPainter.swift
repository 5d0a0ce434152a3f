/// Makes the bytes that turn what a terminal shows into what it shall show: only lines that differ.
package struct ScreenPainter {
  private let isColored: Bool
  private var shown: [String] = []
  private var size: TerminalSize?

  package init(isColored: Bool) { self.isColored = isColored }

  /// Takes the terminal over: another screen than the shell's, without a cursor, on which a long
  /// line is cut off.
  package static let enter = "\u{1B}[?1049h\u{1B}[?7l\u{1B}[?25l"
  /// Gives it back as it was.
  package static let leave = "\u{1B}[0m\u{1B}[?25h\u{1B}[?7h\u{1B}[?1049l"

  /// What the terminal shows is not known any more.
  package mutating func forget() { size = nil }

  /// The bytes that make the terminal show these lines, from the top; empty where it does already.
  package mutating func paint(_ lines: [StyledLine], size: TerminalSize) -> String {
    var text = ""
    if size != self.size {
      text = "\u{1B}[0m\u{1B}[2J"
      shown = Array(repeating: "", count: size.rows)
      self.size = size
    }
    for row in 0..<size.rows {
      let line = row < lines.count ? lines[row].cut(to: size.columns) : ""
      let encoded = line.encoded(isColored: isColored)
      guard encoded != shown[row] else { continue }
      shown[row] = encoded
      text += "\u{1B}[\(row + 1);1H\(encoded)"
      // In the last column the cursor would stand on what was written.
      if line.width < size.columns { text += "\u{1B}[K" }
    }
    return text
  }
}
