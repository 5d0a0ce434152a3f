/// How the command ends; the table is in DESIGN.md §6.
package struct ExitCode: RawRepresentable, Hashable, Sendable {
  package let rawValue: Int32
  package init(rawValue: Int32) { self.rawValue = rawValue }

  package static let success = ExitCode(rawValue: 0)
  /// The run failed, a finding or a failed test, or an event was refused.
  package static let failure = ExitCode(rawValue: 1)
  /// Usage, or an invalid topology.
  package static let usage = ExitCode(rawValue: 2)
  /// No such running topology.
  package static let notRunning = ExitCode(rawValue: 3)
  /// `why`: the event is withheld.
  package static let notEnabled = ExitCode(rawValue: 4)
  /// `why`: the event's values decide, or only a run can tell.
  package static let dependsOnValue = ExitCode(rawValue: 5)
  /// `check --explore`: the search was not complete, and has found nothing.
  package static let incomplete = ExitCode(rawValue: 6)
  package static let timedOut = ExitCode(rawValue: 124)
  /// Second ^C.
  package static let forced = ExitCode(rawValue: 130)
}

/// A failure of a verb that is worded for the person at the terminal.
package struct CommandError: Error, Hashable {
  package let message: String
  package let code: ExitCode

  package init(_ message: String, code: ExitCode = .failure) {
    self.message = message
    self.code = code
  }
}
