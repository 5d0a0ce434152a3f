import Glibc
import PipeSupport

/// A parser of points in time that users type: an age such as `5m`, or a time such as `14:30`.
package enum MomentArgument {
  /// A description of the accepted forms.
  static let expectedForms =
    "must be an age such as 5m, or a time such as 14:30, '2026-11-20 14:30' or 2026-11-20T14:30:00Z"

  /// Parses an age (`5m`), a time of today (`14:30[:05[.123]]`), or a date with an optional time
  /// (`2026-11-20[ 14:30[:05[.123]]]`). Returns `nil` for any other text.
  ///
  /// The separator between date and time is `T` or a space. A time after a date may end with `Z` or
  /// an offset such as `+01:00`. Without an offset, the local time zone applies.
  package static func parse(_ text: String, now: Timestamp = .now) -> Timestamp? {
    if let age = DurationText.parse(text) {
      return Timestamp(milliseconds: now.milliseconds - age.wholeMilliseconds)
    }
    var reader = TimeReader(remainingText: text.utf8[...])
    return reader.read(now: now)
  }
}

/// A parser of a date, a time of day, or both.
private struct TimeReader {
  var remainingText: Substring.UTF8View.SubSequence

  mutating func read(now: Timestamp) -> Timestamp? {
    let whole = remainingText
    var parts = tm()
    // With -1, mktime(3) determines whether daylight saving time applies.
    parts.tm_isdst = -1
    let hasDate = readDate(into: &parts)
    if !hasDate {
      remainingText = whole
      var seconds = time_t(now.milliseconds / 1000)
      var today = tm()
      localtime_r(&seconds, &today)
      (parts.tm_year, parts.tm_mon, parts.tm_mday) = (today.tm_year, today.tm_mon, today.tm_mday)
    } else if remainingText.isEmpty {
      return Self.timestamp(of: parts, 0, mktime)
    } else if !skip("T"), !skip(" ") {
      return nil
    }
    guard let milliseconds = readTime(into: &parts) else { return nil }
    guard hasDate, !remainingText.isEmpty else {
      return remainingText.isEmpty ? Self.timestamp(of: parts, milliseconds, mktime) : nil
    }
    guard let offset = readOffset(), remainingText.isEmpty else { return nil }
    return Self.timestamp(of: parts, milliseconds - offset * 1000, timegm)
  }

  /// Converts a date and time to a timestamp. Returns `nil` for a day that does not exist, such as
  /// 31 April, which `convert` would turn into a day of the next month.
  private static func timestamp(
    of parts: tm, _ milliseconds: Int, _ convert: (UnsafeMutablePointer<tm>) -> time_t
  ) -> Timestamp? {
    var found = parts
    let seconds = convert(&found)
    guard found.tm_mon == parts.tm_mon else { return nil }
    return Timestamp(milliseconds: Int64(seconds) * 1000 + Int64(milliseconds))
  }

  /// Parses a date such as `2026-11-20` into `parts`. Returns false if the text does not begin with
  /// a date.
  private mutating func readDate(into parts: inout tm) -> Bool {
    guard let year = number(digits: 4), skip("-"), let month = number(digits: 2, in: 1...12),
      skip("-"), let day = number(digits: 2, in: 1...31)
    else { return false }
    (parts.tm_year, parts.tm_mon, parts.tm_mday) = (
      Int32(year - 1900), Int32(month - 1), Int32(day)
    )
    return true
  }

  /// Parses `14:30`, `14:30:05` or `14:30:05.123` into `parts`. Returns the milliseconds after the
  /// second; `nil` if the text does not begin with a time.
  private mutating func readTime(into parts: inout tm) -> Int? {
    guard let hour = number(digits: 2, in: 0...23), skip(":"),
      let minute = number(digits: 2, in: 0...59)
    else { return nil }
    (parts.tm_hour, parts.tm_min) = (Int32(hour), Int32(minute))
    guard skip(":") else { return 0 }
    guard let second = number(digits: 2, in: 0...59) else { return nil }
    parts.tm_sec = Int32(second)
    return skip(".") ? number(digits: 3) : 0
  }

  /// Parses an offset from UTC, such as `Z` or `+01:00`. Returns the offset in seconds; `nil` if
  /// the text does not begin with an offset.
  private mutating func readOffset() -> Int? {
    if skip("Z") { return 0 }
    let isWest = remainingText.first == UInt8(ascii: "-")
    guard skip("+") || skip("-"), let hours = number(digits: 2, in: 0...23), skip(":"),
      let minutes = number(digits: 2, in: 0...59)
    else { return nil }
    return (isWest ? -1 : 1) * (hours * 3600 + minutes * 60)
  }

  private mutating func number(digits count: Int, in range: ClosedRange<Int> = 0...9999) -> Int? {
    let digits = remainingText.prefix(count)
    guard digits.count == count, digits.allSatisfy({ (48...57).contains($0) }) else { return nil }
    remainingText = remainingText.dropFirst(count)
    let number = digits.reduce(0) { $0 * 10 + Int($1 - 48) }
    return range.contains(number) ? number : nil
  }

  private mutating func skip(_ character: Unicode.Scalar) -> Bool {
    guard remainingText.first == UInt8(ascii: character) else { return false }
    remainingText = remainingText.dropFirst()
    return true
  }
}
