/// The body of `lodge`: another node, that is to live in the process of the one that it is sent to.
package struct NodeLodging: Codable, Hashable, Sendable {
  /// The arguments that a process of its own would have; see ``NodeArguments``.
  package var arguments: [String]
  /// Its record, which the process is to lock for it; see ``ProcessRecord``.
  package var record: String

  package init(arguments: [String], record: String) {
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
