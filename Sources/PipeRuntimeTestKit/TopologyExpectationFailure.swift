import PipeRuntime

/// A topology did not do what a test expected of it: what that was, what was seen, the last logs.
public struct TopologyExpectationFailure: Error, Sendable, CustomStringConvertible {
  /// What was expected.
  public var expectation: String
  /// Where in the test the call stands that failed, as `FILE:LINE:COLUMN`; `nil` where no call on the harness did.
  public var location: String?
  /// The error that ended the test's body, where it was not an expectation that did.
  public var cause: (any Error)?
  /// The states that were seen of the node that it is about, oldest first.
  public var seen: [StateChange]
  /// How the topology was when it failed, with the last lines of its logs.
  public var report: String

  /// The states shown in `description`. Unit: states.
  private static let shown = 30

  /// The expectation, what was seen, and the report.
  public var description: String {
    var lines = [(location.map { "\($0): " } ?? "") + expectation]
    if !seen.isEmpty {
      lines.append("states seen of '\(seen[0].node)':")
      if seen.count > Self.shown { lines.append("  … \(seen.count - Self.shown) earlier ones") }
      for change in seen.suffix(Self.shown) {
        let missed = change.missed > 0 ? ", after \(change.missed) that were missed" : ""
        lines.append(
          "  \(change.incarnation).\(change.version) \(change.state.text) "
            + "(\(change.cause)\(missed))")
      }
    }
    if !report.isEmpty { lines.append(report) }
    return lines.joined(separator: "\n")
  }
}
