import PipeRuntime
import orchestrator

extension CommandLineTool.Result {
  /// Whether the program's errors contain this error. The wording is in the error's description, and
  /// is tested with the error.
  func reports(_ error: some Error) -> Bool { self.error.contains("error: \(error)") }
}

extension String {
  /// The rest of a message after its first part, such as a name that the test does not know.
  func text(after part: String) -> String {
    guard let range = firstRange(of: part) else { return self }
    return String(self[range.upperBound...])
  }
}

extension ParticipantConflict {
  /// The text of ``commitOfUnknown(_:)`` for any transaction.
  static let lostStep = commitOfUnknown(TransactionID(epoch: 0, sequence: 0)).warning
    .text(after: "0.0")
}

extension UsageError {
  /// The error for a value that an option or a positional of this kind rejects.
  static func invalid(_ name: String, _ value: String, _ kind: ValueKind) -> UsageError {
    .invalidValue(for: name, value: value, expected: kind.problem(with: value) ?? "")
  }
}
