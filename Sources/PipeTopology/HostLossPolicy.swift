/// What becomes of a node while nobody can tell whether the host that it ran on is still there.
public enum HostLossPolicy: String, CaseIterable, Codable, Hashable, Sendable {
  /// Nothing is started in its place until it is certain that its process has ended.
  case wait
  /// Its process gives up by itself after a time, and then another one starts in its place.
  case move
}
