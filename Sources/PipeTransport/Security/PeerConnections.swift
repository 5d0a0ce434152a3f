import Glibc

/// The connections of peers that have sent a message, so that the gate can cut them.
///
/// libzmq cannot disconnect a peer from a bound socket. A connection is identified by libzmq's
/// descriptor, which may have been closed and reused since. So the address of the far end is kept
/// as well, and compared before a cut. If a wrong connection is cut nevertheless, its peer
/// reconnects.
struct PeerConnections {
  /// A descriptor and the address of its far end.
  private struct End: Equatable {
    let descriptor: Int32
    let farEnd: [UInt8]

    var isCurrent: Bool { PeerConnections.farEnd(of: descriptor) == farEnd }

    func cut() {
      if isCurrent { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }
  }

  /// The connections by member and connection number.
  private var ends: [UInt64: [UInt64: End]] = [:]

  func contains(_ tag: ConnectionTag) -> Bool { ends[tag.member]?[tag.connection] != nil }

  /// Records a connection, and forgets connections of the same member that have ended.
  mutating func add(_ tag: ConnectionTag, _ descriptor: Int32) {
    var own = ends[tag.member] ?? [:]
    own = own.filter { $0.value.isCurrent }
    own[tag.connection] = End(descriptor: descriptor, farEnd: Self.farEnd(of: descriptor) ?? [])
    ends[tag.member] = own
  }

  /// Cuts one connection.
  mutating func cut(_ tag: ConnectionTag) {
    ends[tag.member]?.removeValue(forKey: tag.connection)?.cut()
    if ends[tag.member]?.isEmpty == true { ends[tag.member] = nil }
  }

  /// Cuts all connections of a member.
  mutating func cut(of member: UInt64) {
    for end in (ends.removeValue(forKey: member) ?? [:]).values { end.cut() }
  }

  /// Returns the address of a network connection's far end; `nil` if the descriptor is not a
  /// network connection.
  private static func farEnd(of descriptor: Int32) -> [UInt8]? {
    var address = sockaddr_storage()
    var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let code = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        getpeername(descriptor, $0, &size)
      }
    }
    guard code == 0,
      [AF_INET, AF_INET6].contains(Int32(address.ss_family))
    else { return nil }
    return withUnsafeBytes(of: address) { Array($0.prefix(Int(size))) }
  }
}

/// A rejected peer, or an ignored message of a peer.
package struct PeerRefusal: Hashable, Sendable, CustomStringConvertible {
  package enum Reason: Hashable, Sendable {
    /// The gate refused the peer's handshake.
    case unknownKey, revokedKey
    /// A message came under a routing id that belongs to other peers. The name is empty if the peer has none.
    case foreignName(String)
    /// A message came after its key was revoked, or without a key.
    case keyNotAllowed
  }

  package var reason: Reason
  package var key: PublicKey?
  /// The peer's address without the port; empty if it is unknown.
  package var address: String
  /// The number of refused handshakes, or of ignored messages, so far.
  package var count: UInt64

  package var description: String {
    let peer = address.isEmpty ? "a peer" : "a peer at \(address)"
    let key = key.map { "its key '\($0)'" } ?? "its key"
    let message =
      switch reason {
      case .unknownKey:
        "rejected \(peer): \(key) is unknown; a peer of this topology is admitted as soon as the "
          + "orchestrator has announced its key; otherwise, check which program connects from "
          + "there"
      case .revokedKey:
        "rejected \(peer): \(key) was revoked, because another process has replaced the peer; if "
          + "the peer is still running, end the peer"
      case .foreignName(""):
        "ignored a message from \(peer) and closed the connection: \(key) belongs to a name, and "
          + "the peer has no name, or a later connection has this name now"
      case .foreignName(let name):
        "ignored a message from \(peer) and closed the connection: \(key) does not belong to "
          + "'\(name)'"
      case .keyNotAllowed:
        "ignored a message from \(peer) and closed the connection: \(key) is no longer allowed"
      }
    return "\(message) (\(count) so far)"
  }
}
