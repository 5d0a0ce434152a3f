extension StringProtocol {
  /// The number of terminal columns that the text occupies.
  package var displayWidth: Int { reduce(0) { $0 + $1.displayWidth } }

  /// The text with its control characters replaced. Control characters could move the cursor or
  /// change colours.
  package var printable: String {
    guard unicodeScalars.contains(where: \.isControl) else { return String(self) }
    var result = String.UnicodeScalarView()
    for scalar in unicodeScalars { result.append(scalar.isControl ? "\u{FFFD}" : scalar) }
    return String(result)
  }

  /// Returns the start of the text, at most `columns` wide, with an ellipsis where the text was
  /// cut.
  package func cut(to columns: Int) -> String {
    guard displayWidth > columns else { return String(self) }
    var result = ""
    var width = 0
    for character in self {
      width += character.displayWidth
      if width > columns - 1 { break }
      result.append(character)
    }
    return columns > 0 ? result + "…" : ""
  }

  /// Returns the end of the text, at most `columns` wide, with an ellipsis where the text was cut.
  package func cutAtStart(to columns: Int) -> String {
    guard displayWidth > columns else { return String(self) }
    var rest = self[...]
    while !rest.isEmpty, rest.displayWidth > columns - 1 { rest = rest.dropFirst() }
    return columns > 0 ? "…" + rest : ""
  }

  /// Returns the text, padded with trailing spaces to a width of `columns`.
  package func padded(to columns: Int) -> String {
    self + String(repeating: " ", count: Swift.max(0, columns - displayWidth))
  }
}

extension Character {
  /// The number of terminal columns that the character occupies.
  package var displayWidth: Int {
    let first = unicodeScalars[unicodeScalars.startIndex]
    if first.isControl { return 0 }
    switch first.properties.generalCategory {
    // A combining mark, a joiner or another zero-width character without a base character.
    case .nonspacingMark, .enclosingMark, .format, .lineSeparator, .paragraphSeparator:
      return first.value == 0xAD ? 1 : 0
    default: break
    }
    // A symbol in emoji presentation.
    if unicodeScalars.contains("\u{FE0F}") { return 2 }
    return switch first.value {
    case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
      0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F1E6...0x1F1FF, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
      2
    default: first.properties.isEmojiPresentation ? 2 : 1
    }
  }
}

extension Unicode.Scalar {
  fileprivate var isControl: Bool { value < 0x20 || (0x7F..<0xA0).contains(value) }
}

/// Sizes in bytes in the form that users type: `10MB`, `512KiB`, `10m`.
package enum ByteSizeText {
  /// The units, from the largest to the smallest. A decimal unit may omit its `B`, as in Docker's
  /// `max-size`.
  private static let byteUnits: [(name: String, short: String?, size: Int)] = [
    ("GiB", nil, 1 << 30), ("GB", "g", 1_000_000_000), ("MiB", nil, 1 << 20),
    ("MB", "m", 1_000_000), ("KiB", nil, 1 << 10), ("KB", "k", 1_000), ("B", nil, 1),
  ]

  /// The accepted syntax, as a regular expression.
  package static let pattern = "^[0-9]{1,9}([kKmMgG]([iI]?[bB])?|[bB])$"

  /// Parses a number of up to nine digits and a unit in upper or lower case. Returns `nil` if the
  /// text is not a size.
  package static func parse(_ text: String) -> Int? {
    let digits = text.utf8.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    guard (1...9).contains(digits.count), let number = Int(Substring(digits)) else { return nil }
    let unit = text.utf8.dropFirst(digits.count)
    let name = String(Substring(unit)).lowercased()
    let found = byteUnits.first { $0.name.lowercased() == name || $0.short == name }
    return found.map { number * $0.size }
  }

  /// Formats a size with the largest unit that divides the size, such as `512KiB`. ``parse(_:)``
  /// returns the same size.
  package static func write(_ size: Int) -> String {
    let unit = byteUnits.first { size.isMultiple(of: $0.size) && size >= $0.size }
    return unit.map { "\(size / $0.size)\($0.name)" } ?? "\(size)B"
  }

  /// Formats a size for display, rounded to three digits: `20.1 MB`, `812 B`.
  package static func rounded(_ size: Int64) -> String {
    var (value, rest) = (Double(max(0, size)), ["B", "kB", "MB", "GB", "TB"][...])
    while value >= 999.5, rest.count > 1 {
      value /= 1_000
      rest.removeFirst()
    }
    let unit = rest.first ?? ""
    if unit == "B" || value >= 99.95 { return "\(Int(value.rounded())) \(unit)" }
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10) \(unit)"
  }
}
