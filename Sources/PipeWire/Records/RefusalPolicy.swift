/// What happens to an event that the receiver refuses.
public enum RefusalPolicy: String, CaseIterable, Codable, Hashable, Sendable {
  /// It is counted and kept as a dead letter.
  case record
  /// It waits at its place until the receiver's state changes.
  case postpone
  /// The receiver fails.
  case fail
}
