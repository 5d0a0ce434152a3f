#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A wall-clock time for logs and feeds. Unit: milliseconds since 1970 in UTC.
package struct Timestamp: Hashable, Comparable, Sendable, CustomStringConvertible {
  package let milliseconds: Int64

  package init(milliseconds: Int64) { self.milliseconds = milliseconds }

  /// Creates a timestamp from nanoseconds since 1970, truncated to milliseconds.
  package init(nanoseconds: Int64) { milliseconds = nanoseconds / 1_000_000 }

  /// The time in nanoseconds since 1970, clamped to the range of `Int64` before 1677 and after
  /// 2262.
  package var nanoseconds: Int64 {
    let (product, isOverflow) = milliseconds.multipliedReportingOverflow(by: 1_000_000)
    return isOverflow ? (milliseconds < 0 ? .min : .max) : product
  }

  package static var now: Timestamp {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Timestamp(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
  }

  /// The time since this timestamp; zero if the timestamp is in the future.
  package var age: Duration {
    .milliseconds(max(Timestamp.now.milliseconds - milliseconds, 0))
  }

  package static func < (left: Timestamp, right: Timestamp) -> Bool {
    left.milliseconds < right.milliseconds
  }

  /// The number of characters in `description`.
  package static let textLength = 24

  /// The time in UTC: `2026-11-20T09:00:00.123Z`.
  package var description: String {
    let (date, time) = dateParts(gmtime_r)
    return "\(date)T\(time)Z"
  }

  /// The time in the time zone of this process: `2026-11-20 10:00:00.123`.
  package var localText: String {
    let (date, time) = dateParts(localtime_r)
    return "\(date) \(time)"
  }

  private func dateParts(
    _ convert: (UnsafePointer<time_t>, UnsafeMutablePointer<tm>) -> UnsafeMutablePointer<tm>?
  ) -> (date: String, time: String) {
    var (second, rest) = milliseconds.quotientAndRemainder(dividingBy: 1000)
    if rest < 0 { (second, rest) = (second - 1, rest + 1000) }
    var seconds = time_t(second)
    var parts = tm()
    _ = convert(&seconds, &parts)
    func twoDigits(_ value: Int32) -> String { value < 10 ? "0\(value)" : String(value) }
    let fraction = String(1000 + rest).dropFirst()
    return (
      "\(parts.tm_year + 1900)-\(twoDigits(parts.tm_mon + 1))-\(twoDigits(parts.tm_mday))",
      "\(twoDigits(parts.tm_hour)):\(twoDigits(parts.tm_min)):\(twoDigits(parts.tm_sec)).\(fraction)"
    )
  }

  /// Parses the format of `description`; `nil` for any other text.
  package init?(_ text: some StringProtocol) {
    let bytes = Array(text.utf8)
    let shape = Array("0000-00-00T00:00:00.000Z".utf8)
    guard bytes.count == shape.count else { return nil }
    for (byte, expected) in zip(bytes, shape) {
      let isDigit = (48...57).contains(byte)
      guard expected == 48 ? isDigit : byte == expected else { return nil }
    }
    func number(_ range: Range<Int>) -> Int32 {
      bytes[range].reduce(0) { $0 * 10 + Int32($1 - 48) }
    }
    var parts = tm()
    parts.tm_year = number(0..<4) - 1900
    parts.tm_mon = number(5..<7) - 1
    parts.tm_mday = number(8..<10)
    parts.tm_hour = number(11..<13)
    parts.tm_min = number(14..<16)
    parts.tm_sec = number(17..<19)
    milliseconds = Int64(timegm(&parts)) * 1000 + Int64(number(20..<23))
  }
}
