/// The body of `lodge`: another node, that is to live in the process of the one that it is sent to.
package struct NodeLodging: Codable, Hashable, Sendable {
  /// The arguments that a process of its own would have; see ``NodeArguments``.
  package var arguments: [String]
  /// Its record, which the process is to lock for it; see ``ProcessRecord``.
  /// `nil` where the process is on another host than its orchestrator, which then has no record that it could see.
  package var record: String?
  /// What its key file holds, where the process cannot read that; see `KeyFile`.
  package var key: String?

  package init(arguments: [String], record: String?, key: String? = nil) {
    self.key = key
    self.arguments = arguments
    self.record = record
  }
}

/// The body of `turnedAway`: why a node cannot live there.
package struct NodeTurnedAway: Codable, Hashable, Sendable {
  package var node: String
  package var incarnation: UInt64
  package var reason: String

  package init(node: String, incarnation: UInt64, reason: String) {
    self.node = node
    self.incarnation = incarnation
    self.reason = reason
  }
}
