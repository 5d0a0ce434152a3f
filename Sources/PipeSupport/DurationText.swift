/// Durations in the form that users type: `200ms`, `1.5s`, `1m30s`, `2h`.
package enum DurationText {
  /// The units and their lengths in nanoseconds, from the longest to the shortest. A text contains
  /// each unit at most once, in this order.
  private static let durationUnits: [(names: [String], length: Int128)] = [
    (["d"], 86_400_000_000_000), (["h"], 3_600_000_000_000), (["m", "min"], 60_000_000_000),
    (["s"], 1_000_000_000), (["ms"], 1_000_000), (["us"], 1_000), (["ns"], 1),
  ]
  /// The longest accepted duration, a million hours. Unit: nanoseconds.
  private static let longestDuration: Int128 = 1_000_000 * 3_600_000_000_000

  /// The accepted syntax as a regular expression. The expression does not check the longest
  /// duration.
  package static let pattern =
    "^(?=[0-9])"
    + durationUnits.map { "([0-9]{1,9}(\\.[0-9]{1,9})?(\($0.names.joined(separator: "|"))))?" }
    .joined()
    + "$"

  /// Parses decimal numbers with units, such as `1m30s`. Each number has up to nine digits before
  /// and after the decimal point. Returns `nil` if the text is not a duration, is not an integral
  /// number of nanoseconds, or is longer than a million hours.
  package static func parse(_ text: String) -> Duration? {
    var rest = text.utf8[...]
    var units = Self.durationUnits[...]
    var totalNanoseconds: Int128 = 0
    repeat {
      guard let (number, scale) = readNumber(&rest) else { return nil }
      let letters = rest.prefix { !isDigit($0) }
      rest = rest[letters.endIndex...]
      let name = String(Substring(letters))
      guard let found = units.firstIndex(where: { $0.names.contains(name) }) else { return nil }
      let (length, remainder) = (number * units[found].length).quotientAndRemainder(
        dividingBy: scale)
      guard remainder == 0 else { return nil }
      totalNanoseconds += length
      units = units[(found + 1)...]
    } while !rest.isEmpty
    return totalNanoseconds <= longestDuration ? .nanoseconds(totalNanoseconds) : nil
  }

  /// The reason why a text is not a duration. The description continues a sentence that begins with
  /// the text.
  package enum ParseFailure: Hashable, Sendable, CustomStringConvertible {
    case noUnit(String)
    case notADuration

    package init(with text: String) {
      var rest = text.utf8[...]
      self = readNumber(&rest) != nil && rest.isEmpty ? .noUnit(text) : .notADuration
    }

    package var description: String {
      switch self {
      case .noUnit(let text): "has no unit; write \(text)s, \(text)ms or \(text)m"
      case .notADuration: "must be a duration such as 200ms, 1.5s, 1m30s or 2h"
      }
    }
  }

  /// Formats a duration so that ``parse(_:)`` returns the same value, to the nanosecond.
  package static func write(_ duration: Duration) -> String {
    let (seconds, attoseconds) = duration.components
    var rest = Int128(seconds) * 1_000_000_000 + Int128(attoseconds) / 1_000_000_000
    var text = ""
    for (names, length) in durationUnits {
      let (count, remainder) = rest.quotientAndRemainder(dividingBy: length)
      if count > 0 { text += "\(count)\(names[0])" }
      rest = remainder
    }
    return text.isEmpty ? "0s" : text
  }

  /// Removes a decimal number from the start of `rest`. Returns the decimal number as a fraction:
  /// `1.5` has the `number` 15 and the `scale` 10. Returns `nil` if `rest` does not begin with a
  /// decimal number.
  private static func readNumber(
    _ rest: inout Substring.UTF8View
  ) -> (number: Int128, scale: Int128)? {
    let integerDigits = rest.prefix(while: isDigit)
    guard (1...9).contains(integerDigits.count), var number = Int128(Substring(integerDigits))
    else { return nil }
    rest = rest[integerDigits.endIndex...]
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

extension Duration {
  /// The duration in nanoseconds, clamped to at most a hundred years, positive or negative.
  package var clampedNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let centuryInSeconds: Int64 = 100 * 365 * 86_400
    guard seconds.magnitude < centuryInSeconds else {
      return seconds.signum() * centuryInSeconds * 1_000_000_000
    }
    return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
  }
}

extension Duration {
  /// The duration in a form for people to read: `250 ms`, `1.5 s`, `3 min 20 s`, `2 h 5 min`.
  package var shortText: String {
    let milliseconds = wholeMilliseconds
    if milliseconds < 0 { return "-" + (.zero - self).shortText }
    if milliseconds < 1000 { return "\(milliseconds) ms" }
    let seconds = milliseconds / 1000
    if seconds < 60 {
      let tenths = milliseconds % 1000 / 100
      return tenths == 0 ? "\(seconds) s" : "\(seconds).\(tenths) s"
    }
    let minutes = seconds / 60
    if minutes < 60 { return joined(minutes, "min", seconds % 60, "s") }
    let hours = minutes / 60
    if hours < 24 { return joined(hours, "h", minutes % 60, "min") }
    return joined(hours / 24, "d", hours % 24, "h")
  }

  /// The duration in milliseconds, rounded towards zero and clamped to the range of `Int64`.
  package var wholeMilliseconds: Int64 {
    let (seconds, attoseconds) = components
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    if overflow { return seconds < 0 ? .min : .max }
    return product + attoseconds / 1_000_000_000_000_000
  }

  private func joined(_ large: Int64, _ unit: String, _ small: Int64, _ smallUnit: String) -> String
  {
    small == 0 ? "\(large) \(unit)" : "\(large) \(unit) \(small) \(smallUnit)"
  }
}

/// Runs an operation, and cancels the operation after `timeout`. Returns after the operation has
/// ended, so the operation must end when it is cancelled.
/// - Returns: The operation's result, or `nil` if the time ran out first.
package func withTimeout<Value: Sendable>(
  _ timeout: Duration, _ operation: @escaping @Sendable () async throws -> Value
) async throws -> Value? {
  try await withThrowingTaskGroup(of: Value?.self) { group in
    group.addTask { try await operation() }
    group.addTask {
      try await Task.sleep(for: timeout)
      return nil
    }
    defer { group.cancelAll() }
    return try await group.next() ?? nil
  }
}
