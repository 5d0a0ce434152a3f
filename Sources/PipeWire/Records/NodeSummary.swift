import PipeMachines

/// What a node tells of itself beside its state, at most ten times a second: its counters, and how often it
/// has taken each transition.
public struct NodeSummary: Codable, Hashable, Sendable {
  /// Its counters, without a state; `nil` where another composite of the same process tells them.
  public var status: NodeStatus?
  /// The count of its transitions; `nil` where it has none.
  public var transitions: TransitionCounts?

  package init(status: NodeStatus? = nil, transitions: TransitionCounts? = nil) {
    self.status = status
    self.transitions = transitions
  }
}

/// How often a machine has taken each of its transitions. They are counted while somebody asks for it.
public struct TransitionCounts: Codable, Hashable, Sendable {
  /// The version after which they are counted.
  public var since: UInt64
  /// By the name of the state's case, then of the event's; `*` stands for all of a type without cases.
  public var counts: [String: [String: UInt64]]

  package init(since: UInt64, counts: [String: [String: UInt64]] = [:]) {
    self.since = since
    self.counts = counts
  }

  /// What stands for all states, or all events, of a type without cases.
  package static let anyCase = "*"

  /// All transitions together.
  public var total: UInt64 { counts.values.reduce(0) { $1.values.reduce($0, +) } }
}
