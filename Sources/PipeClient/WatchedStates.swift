import PipeWire

/// Which of the states of nodes are told to who watches them.
public enum WatchedStates: Hashable, Sendable {
  /// Every state, in order. A node writes each of its states for that: one that takes a million events a
  /// second is several times slower.
  case every
  /// The latest state of each node, at most ten times a second, with its counters. Where only these have
  /// changed, it comes once more under the same version. A node does not feel it.
  case latest

  /// What is subscribed to.
  var topic: FeedTopic {
    switch self {
    case .every: .states(areCommitted: nil)
    case .latest: .summaries(of: nil)
    }
  }
}
