extension FixedWidthInteger {
  /// Whether a log tells of what has happened so often: the first three times, then ever less often.
  package var isWorthLogging: Bool { self <= 3 || nonzeroBitCount == 1 }
}
