/// Lengths of time as a topology file writes them: `200ms`, `60s`, `1m30s`, `2h`.
package enum DurationText {
  /// From the largest unit to the smallest, each at most once.
  private static let units: [(name: String, length: Duration)] = [
    ("h", .seconds(3600)), ("m", .seconds(60)), ("s", .seconds(1)), ("ms", .milliseconds(1)),
    ("us", .microseconds(1)), ("ns", .nanoseconds(1)),
  ]

  /// Reads a length of time, of at most six digits for each unit; `nil` where the text is none.
  package static func parse(_ text: String) -> Duration? {
    var rest = text.utf8[...]
    var total = Duration.zero
    var unit = 0
    guard !rest.isEmpty else { return nil }
    while !rest.isEmpty {
      let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      guard (1...6).contains(digits.count), let count = Int(Substring(digits)) else { return nil }
      rest = rest[digits.endIndex...]
      let letters = rest.prefix { !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      rest = rest[letters.endIndex...]
      let name = String(Substring(letters))
      guard let found = units[unit...].firstIndex(where: { $0.name == name }) else { return nil }
      total += units[found].length * count
      unit = found + 1
    }
    return total
  }

  /// Writes a length of time so that it reads back the same, to the nanosecond.
  package static func write(_ duration: Duration) -> String {
    var rest = nanoseconds(duration)
    var text = ""
    for (name, length) in units {
      let (count, left) = rest.quotientAndRemainder(dividingBy: nanoseconds(length))
      if count > 0 { text += "\(count)\(name)" }
      rest = left
    }
    return text.isEmpty ? "0s" : text
  }

  private static func nanoseconds(_ duration: Duration) -> Int128 {
    let (seconds, attoseconds) = duration.components
    return Int128(seconds) * 1_000_000_000 + Int128(attoseconds) / 1_000_000_000
  }
}
