/// A peer that was turned away, or a message of it that was passed over.
package struct PeerRefusal: Hashable, Sendable, CustomStringConvertible {
  package enum Reason: Hashable, Sendable {
    /// In its handshake.
    case unknownKey, revokedKey
    /// A message under a routing id that belongs to others; empty where the peer has none.
    case foreignName(String)
    /// A message that came after its key was revoked, or without one.
    case afterwards
  }

  package var reason: Reason
  package var key: PublicKey?
  /// Without the port; empty where it is not known.
  package var address: String
  /// How many there were, of handshakes or of messages.
  package var count: UInt64

  package var description: String {
    let peer = address.isEmpty ? "a peer" : "a peer at \(address)"
    let key = key.map { "its key '\($0)'" } ?? "its key"
    let told =
      switch reason {
      case .unknownKey:
        "turned away \(peer): \(key) is not known here. If it is one of this topology, it gets in by "
          + "itself as soon as the orchestrator has told of it; else see who runs there"
      case .revokedKey:
        "turned away \(peer): \(key) was revoked, since another process has taken its place. "
          + "If it still runs, end it"
      case .foreignName(""):
        "passed over a message of \(peer) and cut the connection: \(key) belongs to a "
          + "name, and the peer has none, or a later connection has it now"
      case .foreignName(let name):
        "passed over a message of \(peer) and cut the connection: \(key) does not belong to "
          + "'\(name)'"
      case .afterwards:
        "passed over a message of \(peer) and cut the connection: \(key) is not allowed any more"
      }
    return "\(told) (\(count) so far)"
  }
}
