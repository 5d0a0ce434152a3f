import PipeClient
import PipeRuntime
import PipeSupervision

/// The counts of meetings by outcome. They show whether a soak has covered every case.
package struct MeetingCounts: Equatable, Sendable {
  package var committed = 0
  package var refused = 0
  package var busy = 0
  package var unavailable = 0
  /// The meetings whose callers did not learn the outcome: taken, and not taken
  /// (`unknownNotTaken`).
  package var unknownTaken = 0
  package var unknownNotTaken = 0
  /// The number of meetings that bells have requested.
  package var bellMeetingCount = 0
  /// The number of answered queries about transactions.
  package var queryCount = 0
  /// The number of events in doubt, by cause.
  package var doubts: [String: Int] = [:]
  package var doubtsCommitted = 0
  package var doubtsAborted = 0
  /// The number of coordinators that recovered with unacknowledged commits.
  package var recoveries = 0

  package init() {}

  mutating func add(_ attempts: [Attempt]) {
    for attempt in attempts {
      switch attempt.outcome {
      case .committed: committed += 1
      case .refused: refused += 1
      case .busy: busy += 1
      case .unavailable: unavailable += 1
      case .unknown: break
      }
    }
  }

  package static func += (left: inout MeetingCounts, right: MeetingCounts) {
    left.committed += right.committed
    left.refused += right.refused
    left.busy += right.busy
    left.unavailable += right.unavailable
    left.unknownTaken += right.unknownTaken
    left.unknownNotTaken += right.unknownNotTaken
    left.bellMeetingCount += right.bellMeetingCount
    left.queryCount += right.queryCount
    left.doubts.merge(right.doubts, uniquingKeysWith: +)
    left.doubtsCommitted += right.doubtsCommitted
    left.doubtsAborted += right.doubtsAborted
    left.recoveries += right.recoveries
  }

  /// The reasons for which an event was in doubt, as written in the nodes' logs.
  static let causes = InDoubtReport.Cause.allCases.map { "\($0)" }

  /// Counts a line of a node's log, if the line says that an event is in doubt or not anymore.
  package mutating func add(_ entry: LogEntry) {
    guard entry.stream == .err else { return }
    if entry.text.contains(" is in doubt after ") {
      for cause in Self.causes where entry.text.contains(cause) {
        doubts[cause, default: 0] += 1
      }
    } else if entry.text.contains(" is no longer in doubt: ") {
      if entry.text.hasSuffix("the event was committed") {
        doubtsCommitted += 1
      } else {
        doubtsAborted += 1
      }
    } else if entry.text.contains(" are committed, but not acknowledged ") {
      recoveries += 1
    }
  }

  /// The names of the cases that never occurred.
  package var missing: [String] {
    var missing: [String] = []
    func require(_ count: Int, _ what: String) {
      if count == 0 { missing.append(what) }
    }
    require(committed, "a commit")
    require(refused, "a refusal")
    require(unavailable, "an unavailable participant")
    require(unknownTaken, "an unknown outcome that was taken")
    require(unknownNotTaken, "an unknown outcome that was not taken")
    for cause in Self.causes { require(doubts[cause] ?? 0, "a doubt after \(cause)") }
    require(doubtsCommitted, "a doubt that ended with a commit")
    require(doubtsAborted, "a doubt that ended without one")
    require(recoveries, "a coordinator that came back to commits")
    return missing
  }

  /// The counts as text for people.
  package var text: String {
    let doubtText = Self.causes.map { "\(doubts[$0] ?? 0) after \($0)" }.joined(separator: ", ")
    return """
        meetings: \(committed) committed, \(refused) refused, \(busy) busy, \(unavailable) \
      unavailable, \(bellMeetingCount) rung for
        unknown to their callers: \(unknownTaken) taken by all, \(unknownNotTaken) by none
        transactions asked for: \(queryCount)
        promises in doubt: \(doubtText); \(doubtsCommitted) were committed, \(doubtsAborted) given up
        coordinators that came back to commits: \(recoveries)
      """
  }
}
