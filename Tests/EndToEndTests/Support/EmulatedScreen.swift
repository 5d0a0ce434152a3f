/// An emulation of the terminal features that views and `orchestrator` use: two screens, a cursor,
/// and clearing.
struct EmulatedScreen {
  private var columns: Int
  private var rows: Int
  private var main: [[Character]]
  private var alternate: [[Character]]
  private var row = 0
  private var column = 0
  private var pending: [UInt8] = []
  private(set) var isAlternate = false
  private(set) var isCursorVisible = true
  private(set) var wraps = true
  private(set) var byteCount = 0
  /// The received escape sequences that the emulation does not know.
  private(set) var unknown: [String] = []

  init(columns: Int, rows: Int) {
    (self.columns, self.rows) = (columns, rows)
    main = Self.blank(columns, rows)
    alternate = main
  }

  private static func blank(_ columns: Int, _ rows: Int) -> [[Character]] {
    Array(repeating: Array(repeating: " ", count: columns), count: rows)
  }

  /// Resizes both screens and keeps the visible part of their content.
  mutating func resize(columns: Int, rows: Int) {
    func fit(_ old: [[Character]]) -> [[Character]] {
      var new = Self.blank(columns, rows)
      for (row, line) in old.prefix(rows).enumerated() {
        for (column, character) in line.prefix(columns).enumerated() {
          new[row][column] = character
        }
      }
      return new
    }
    (main, alternate) = (fit(main), fit(alternate))
    (self.columns, self.rows) = (columns, rows)
    (row, column) = (min(row, rows - 1), min(column, columns - 1))
  }

  /// The lines, without trailing spaces.
  var lines: [String] {
    (isAlternate ? alternate : main).map { line in
      var text = String(line)
      while text.last == " " { text.removeLast() }
      return text
    }
  }

  mutating func receive(_ bytes: some Collection<UInt8>) {
    byteCount += bytes.count
    pending += bytes
    while let count = parseNext() { pending.removeFirst(count) }
  }

  /// Consumes one character or escape sequence of the pending bytes.
  /// - Returns: The number of consumed bytes; `nil` if the character or the sequence is incomplete.
  private mutating func parseNext() -> Int? {
    guard let first = pending.first else { return nil }
    switch first {
    case 0x1B:
      guard pending.count > 2 else { return nil }
      guard let end = pending.dropFirst(2).firstIndex(where: { (0x40...0x7E).contains($0) }) else {
        return nil
      }
      let parameters = String(decoding: pending[2..<end], as: UTF8.self)
      control(Character(Unicode.Scalar(pending[end])), parameters)
      return end + 1
    case 0x0D: column = 0
    case 0x0A: lineFeed()
    case 0x00...0x1F: break
    default:
      let length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4
      guard pending.count >= length else { return nil }
      for character in String(decoding: pending[..<length], as: UTF8.self) { put(character) }
      return length
    }
    return 1
  }

  private mutating func put(_ character: Character) {
    if column >= columns {
      guard wraps else { return }
      column = 0
      lineFeed()
    }
    if isAlternate { alternate[row][column] = character } else { main[row][column] = character }
    column += 1
  }

  private mutating func lineFeed() {
    row += 1
    guard row >= rows else { return }
    row = rows - 1
    main.removeFirst()
    main.append(Array(repeating: " ", count: columns))
  }

  private mutating func clear(_ row: Int, from column: Int) {
    for column in min(column, columns)..<columns {
      if isAlternate { alternate[row][column] = " " } else { main[row][column] = " " }
    }
  }

  private mutating func control(_ final: Character, _ parameters: String) {
    switch (final, parameters) {
    case ("h", "?1049"): (isAlternate, alternate) = (true, Self.blank(columns, rows))
    case ("l", "?1049"): isAlternate = false
    case ("h", "?25"): isCursorVisible = true
    case ("l", "?25"): isCursorVisible = false
    case ("h", "?7"): wraps = true
    case ("l", "?7"): wraps = false
    case ("m", _): break
    case ("J", "2"): alternate = Self.blank(columns, rows)
    case ("A", _): row = max(row - (Int(parameters) ?? 1), 0)
    case ("J", ""):
      clear(row, from: column)
      for row in min(row + 1, rows)..<rows { clear(row, from: 0) }
    case ("K", ""): clear(row, from: column)
    case ("H", _):
      let cursorPosition = parameters.split(separator: ";").compactMap { Int($0) }
      row = min((cursorPosition.first ?? 1) - 1, rows - 1)
      column = min((cursorPosition.dropFirst().first ?? 1) - 1, columns - 1)
    default: unknown.append(parameters + String(final))
    }
  }
}
