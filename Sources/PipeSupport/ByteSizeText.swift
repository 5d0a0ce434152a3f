/// Sizes in bytes as they are typed: `10MB`, `512KiB`, `10m`.
package enum ByteSizeText {
  /// From the largest unit to the smallest. A decimal unit may go without its `B`, as in Docker's `max-size`.
  private static let units: [(name: String, short: String?, size: Int)] = [
    ("GiB", nil, 1 << 30), ("GB", "g", 1_000_000_000), ("MiB", nil, 1 << 20),
    ("MB", "m", 1_000_000), ("KiB", nil, 1 << 10), ("KB", "k", 1_000), ("B", nil, 1),
  ]

  /// What is read, as a regular expression.
  package static let pattern = "^[0-9]{1,9}([kKmMgG]([iI]?[bB])?|[bB])$"

  /// Reads a number of up to nine digits with its unit, in letters of either case; `nil` where the text is none.
  package static func parse(_ text: String) -> Int? {
    let digits = text.utf8.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    guard (1...9).contains(digits.count), let number = Int(Substring(digits)) else { return nil }
    let unit = text.utf8.dropFirst(digits.count)
    let name = String(Substring(unit)).lowercased()
    let found = units.first { $0.name.lowercased() == name || $0.short == name }
    return found.map { number * $0.size }
  }

  /// Writes a size so that it reads back the same.
  package static func write(_ size: Int) -> String {
    let unit = units.first { size.isMultiple(of: $0.size) && size >= $0.size }
    return unit.map { "\(size / $0.size)\($0.name)" } ?? "\(size)B"
  }
}
