/// Lengths of time as they are typed: `200ms`, `1.5s`, `1m30s`, `2h`.
package enum DurationText {
  /// From the largest unit to the smallest, each at most once. Unit: nanoseconds.
  private static let units: [(names: [String], length: Int128)] = [
    (["d"], 86_400_000_000_000), (["h"], 3_600_000_000_000), (["m", "min"], 60_000_000_000),
    (["s"], 1_000_000_000), (["ms"], 1_000_000), (["us"], 1_000), (["ns"], 1),
  ]
  /// A million hours. Unit: nanoseconds.
  private static let longest: Int128 = 1_000_000 * 3_600_000_000_000

  /// What is read, but for the limit of the whole, as a regular expression.
  package static let pattern =
    "^(?=[0-9])"
    + units.map { "([0-9]{1,9}(\\.[0-9]{1,9})?(\($0.names.joined(separator: "|"))))?" }.joined()
    + "$"

  /// Reads a length of time of whole nanoseconds, with up to nine digits before and after a point;
  /// `nil` where the text is none.
  package static func parse(_ text: String) -> Duration? {
    var rest = text.utf8[...]
    var units = Self.units[...]
    var total: Int128 = 0
    repeat {
      guard let (number, scale) = readNumber(&rest) else { return nil }
      let letters = rest.prefix { !isDigit($0) }
      rest = rest[letters.endIndex...]
      let name = String(Substring(letters))
      guard let found = units.firstIndex(where: { $0.names.contains(name) }) else { return nil }
      let (length, left) = (number * units[found].length).quotientAndRemainder(dividingBy: scale)
      guard left == 0 else { return nil }
      total += length
      units = units[(found + 1)...]
    } while !rest.isEmpty
    return total <= longest ? .nanoseconds(total) : nil
  }

  /// Why a text is no length of time, as a message goes on about it.
  package enum Problem: Hashable, Sendable, CustomStringConvertible {
    case noUnit(String)
    case noLength

    package init(with text: String) {
      var rest = text.utf8[...]
      self = readNumber(&rest) != nil && rest.isEmpty ? .noUnit(text) : .noLength
    }

    package var description: String {
      switch self {
      case .noUnit(let text): "has no unit; write \(text)s, \(text)ms or \(text)m"
      case .noLength: "must be a length of time such as 200ms, 1.5s, 1m30s or 2h"
      }
    }
  }

  /// Writes a length of time so that it reads back the same, to the nanosecond.
  package static func write(_ duration: Duration) -> String {
    let (seconds, attoseconds) = duration.components
    var rest = Int128(seconds) * 1_000_000_000 + Int128(attoseconds) / 1_000_000_000
    var text = ""
    for (names, length) in units {
      let (count, left) = rest.quotientAndRemainder(dividingBy: length)
      if count > 0 { text += "\(count)\(names[0])" }
      rest = left
    }
    return text.isEmpty ? "0s" : text
  }

  /// Reads digits, and more of them after a point. The number is the quotient of the two.
  private static func readNumber(
    _ rest: inout Substring.UTF8View
  ) -> (number: Int128, scale: Int128)? {
    let whole = rest.prefix(while: isDigit)
    guard (1...9).contains(whole.count), var number = Int128(Substring(whole)) else { return nil }
    rest = rest[whole.endIndex...]
    guard rest.first == UInt8(ascii: ".") else { return (number, 1) }
    let fraction = rest.dropFirst().prefix(while: isDigit)
    guard (1...9).contains(fraction.count) else { return nil }
    rest = rest[fraction.endIndex...]
    var scale: Int128 = 1
    for digit in fraction {
      number = number * 10 + Int128(digit - UInt8(ascii: "0"))
      scale *= 10
    }
    return (number, scale)
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}
