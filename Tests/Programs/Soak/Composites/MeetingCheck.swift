import NumberMachines
import PipeRuntime

/// Compares the meetings that members have stored with the answers that callers received.
package struct MeetingCheck {
  /// A description of each violation.
  package private(set) var violations: [String] = []
  /// The numbers of meetings whose callers did not learn the outcome: `taken` by members, and
  /// `notTaken` by any.
  package private(set) var unknown = (taken: 0, notTaken: 0)

  private let plan: MeetingPlan
  /// For each member, how many times it has stored each meeting.
  private var recordCounts: [String: [String: Int]] = [:]
  private var requestedMeetings: Set<String> = []

  /// - Parameters:
  ///   - met: The meetings that each member has stored, oldest first.
  ///   - rung: The number of meetings that each bell has requested.
  ///   - deadLetters: The number of dead letters of each coordinator.
  package init(
    _ plan: MeetingPlan, met: [String: [String]], attempts: [Attempt], rung: [String: Int],
    deadLetters: [String: Int]
  ) {
    self.plan = plan
    for (member, meetings) in met {
      for meeting in meetings { recordCounts[meeting, default: [:]][member, default: 0] += 1 }
    }
    for attempt in attempts { check(attempt) }
    for bell in plan.bells { check(bell, rung: rung[bell.source] ?? 0, deadLetters) }
    for meeting in recordCounts.keys.sorted() where !requestedMeetings.contains(meeting) {
      violations.append("'\(meeting)' was taken, and nobody has asked for it")
    }
    checkOrder(met)
    checkVersions(met, attempts)
  }

  private mutating func check(_ attempt: Attempt) {
    requestedMeetings.insert(attempt.meeting)
    guard let composite = plan[attempt.composite] else { return }
    let recordCounts = recordCounts[attempt.meeting] ?? [:]
    func reportViolation(_ what: String) {
      violations.append(
        "'\(attempt.meeting)' of \(composite.name), whose caller received \(attempt.outcome), "
          + "was taken \(what)")
    }
    if let member = recordCounts.first(where: { $0.value > 1 }) {
      reportViolation("\(member.value) times by \(member.key)")
    }
    let recordingMembers = Set(recordCounts.keys)
    switch attempt.outcome {
    case .committed(_, let versions):
      if recordingMembers != Set(composite.members) {
        reportViolation("by \(Self.names(recordingMembers))")
      }
      if Set(versions.keys) != Set(composite.members) {
        reportViolation("with versions of \(Self.names(Set(versions.keys)))")
      }
    case .refused, .busy, .unavailable:
      if !recordingMembers.isEmpty { reportViolation("by \(Self.names(recordingMembers))") }
    case .unknown:
      if recordingMembers.isEmpty { unknown.notTaken += 1 } else { unknown.taken += 1 }
      if !recordingMembers.isEmpty && recordingMembers != Set(composite.members) {
        reportViolation("by \(Self.names(recordingMembers)) only")
      }
    }
  }

  private static func names(_ names: Set<String>) -> String {
    names.isEmpty ? "none" : names.sorted().joined(separator: ", ")
  }

  /// Checks that each meeting of a bell was taken once by all members, or by none. If no member
  /// took the meeting, it must be a dead letter.
  private mutating func check(
    _ bell: MeetingPlan.Bell, rung: Int, _ deadLetters: [String: Int]
  ) {
    guard let composite = plan[bell.composite] else { return }
    var missing = 0
    for n in 1..<(rung + 1) {
      let meeting = "\(bell.source):\(n)"
      requestedMeetings.insert(meeting)
      let recordCounts = recordCounts[meeting] ?? [:]
      if recordCounts.isEmpty { missing += 1 }
      let isRepeated = recordCounts.values.contains { $0 > 1 }
      if recordCounts.isEmpty || Set(recordCounts.keys) == Set(composite.members) && !isRepeated {
        continue
      }
      violations.append(
        "'\(meeting)' of \(composite.name) was taken by \(recordCounts.sorted { $0.key < $1.key })")
    }
    let deadLetters = deadLetters[composite.coordinator] ?? 0
    if missing != deadLetters {
      violations.append(
        "\(missing) of \(rung) meetings of \(bell.source) were not taken, and \(deadLetters) are dead "
          + "letters of '\(composite.coordinator)'")
    }
    if bell.onRefused == .postpone, missing > 0 {
      violations.append(
        "\(missing) meetings of \(bell.source) were not taken, and its pipe waits for each")
    }
  }

  /// Checks that members have taken their common meetings in the same order, and a bell's meetings
  /// in the order of the bell.
  private mutating func checkOrder(_ met: [String: [String]]) {
    for (index, left) in plan.members.enumerated() {
      for right in plan.members[(index + 1)...] {
        let (leftMeetings, rightMeetings) = (met[left] ?? [], met[right] ?? [])
        let shared = Set(leftMeetings).intersection(rightMeetings)
        if leftMeetings.filter(shared.contains) != rightMeetings.filter(shared.contains) {
          violations.append("\(left) and \(right) have met in different orders")
        }
      }
      for bell in plan.bells {
        let numbers = (met[left] ?? []).filter { $0.hasPrefix(bell.source + ":") }
          .compactMap { Int($0.drop { $0 != ":" }.dropFirst()) }
        if numbers != numbers.sorted() {
          violations.append("\(left) has met in another order than \(bell.source) has rung")
        }
      }
    }
  }

  /// Checks that later meetings have higher versions and transaction numbers in the answers.
  private mutating func checkVersions(_ met: [String: [String]], _ attempts: [Attempt]) {
    var answers: [String: (transaction: TransactionID, versions: [String: UInt64])] = [:]
    for attempt in attempts {
      if case .committed(let transaction, let versions) = attempt.outcome {
        answers[attempt.meeting] = (transaction, versions)
      }
    }
    for member in plan.members {
      var last: (version: UInt64, transaction: TransactionID) = (0, .zero)
      for meeting in met[member] ?? [] {
        guard let (transaction, versions) = answers[meeting], let version = versions[member] else {
          continue
        }
        if version <= last.version || transaction <= last.transaction {
          violations.append(
            "\(member) has met for '\(meeting)', transaction \(transaction), at version \(version), "
              + "after \(last.transaction) at \(last.version)")
        }
        last = (version, transaction)
      }
    }
  }
}
