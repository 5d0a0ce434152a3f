extension Duration {
  /// The duration for a person to read: `250 ms`, `1.5 s`, `3 min 20 s`, `2 h 5 min`.
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

  /// Whole milliseconds, rounded towards zero, and kept within the range of `Int64`.
  package var wholeMilliseconds: Int64 {
    let (seconds, attoseconds) = components
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    if overflow { return seconds < 0 ? .min : .max }
    return product + attoseconds / 1_000_000_000_000_000
  }

  private func joined(_ large: Int64, _ unit: String, _ small: Int64, _ part: String) -> String {
    small == 0 ? "\(large) \(unit)" : "\(large) \(unit) \(small) \(part)"
  }
}
