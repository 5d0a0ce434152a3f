/// Sizes that peers may rely on.
package enum WireLimits {
  /// The largest event, state or request body. Unit: bytes.
  package static let eventByteCount = 1 << 20
  /// The largest message read from a socket; a peer that sends a larger one is disconnected.
  package static let messageByteCount: Int64 = 4 << 20
}

/// Routing ids: how a peer is known at a ROUTER.
package enum WireName {
  /// The sending end of a pipe, at the receiver's inbox.
  package static func pipe(_ name: String) -> String { "pipe/" + name }
  /// A coordinator of synchronized events, at the inbox of a participant.
  package static func coordinator(_ name: String) -> String { "sync/" + name }
  /// A node, at the orchestrator's control socket.
  package static func node(_ name: String) -> String { "node/" + name }
  /// The agent that starts a node's processes, at the orchestrator's control socket.
  package static func agent(ofNode name: String) -> String { "agent/" + name }

  /// Whether a routing id may be a client's: none of these is.
  package static func isOfClient(_ name: [UInt8]) -> Bool {
    for prefix in prefixes where name.starts(with: prefix) { return false }
    return true
  }

  private static let prefixes = [pipe(""), coordinator(""), node(""), agent(ofNode: "")].map {
    Array($0.utf8)
  }
}
