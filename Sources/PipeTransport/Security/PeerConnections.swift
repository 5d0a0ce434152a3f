import Glibc

/// The connections that a gate can shut down: all connections over which the peer has sent at least
/// one message.
///
/// libzmq cannot disconnect a peer from a bound socket, so the gate shuts down libzmq's descriptor.
/// libzmq may have closed the descriptor, and a new connection may have the same descriptor now. So
/// the gate first compares the descriptor's remote address with the stored address. If a connection
/// is nevertheless shut down by mistake, its peer reconnects.
struct PeerConnections {
  /// The descriptor of a connection, and the remote address that the connection has.
  private struct ConnectionEnd: Equatable {
    let descriptor: Int32
    let remoteAddress: [UInt8]

    var isCurrent: Bool { PeerConnections.farEnd(of: descriptor) == remoteAddress }

    func cut() {
      if isCurrent { shutdown(descriptor, Int32(SHUT_RDWR)) }
    }
  }

  /// The connections, by the member's number and then by the connection's number. A member is an
  /// admitted peer.
  private var endsByMember: [UInt64: [UInt64: ConnectionEnd]] = [:]

  func contains(_ tag: ConnectionTag) -> Bool { endsByMember[tag.member]?[tag.connection] != nil }

  /// Records a connection, and forgets connections of the same member that have ended.
  mutating func add(_ tag: ConnectionTag, _ descriptor: Int32) {
    var own = endsByMember[tag.member] ?? [:]
    own = own.filter { $0.value.isCurrent }
    own[tag.connection] = ConnectionEnd(
      descriptor: descriptor, remoteAddress: Self.farEnd(of: descriptor) ?? [])
    endsByMember[tag.member] = own
  }

  /// Shuts down one connection.
  mutating func cut(_ tag: ConnectionTag) {
    endsByMember[tag.member]?.removeValue(forKey: tag.connection)?.cut()
    if endsByMember[tag.member]?.isEmpty == true { endsByMember[tag.member] = nil }
  }

  /// Shuts down all connections of a member.
  mutating func cut(of member: UInt64) {
    for end in (endsByMember.removeValue(forKey: member) ?? [:]).values { end.cut() }
  }

  /// Returns the remote address of a network connection; `nil` if the descriptor is not a network
  /// connection.
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

/// A report that a peer was rejected, or that a message was ignored.
package struct PeerRefusal: Hashable, Sendable, CustomStringConvertible {
  package enum Reason: Hashable, Sendable {
    /// The gate refused the peer's handshake.
    case unknownKey, revokedKey
    /// A message had a routing id that its sender may not use. The string is the routing id; it is
    /// empty if the sender has not set a routing id.
    case foreignName(String)
    /// A message arrived after its sender's key was revoked, or its sender had no key.
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
