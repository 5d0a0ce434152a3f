import CZMQ
import PipeSupport

/// Controls which peers may connect to those sockets of this process that are bound for other hosts.
///
/// The gate answers handshakes by its ``ZapPolicy``. A handshake does not contain the routing id,
/// so the gate also checks each message, and ignores a message that comes under another peer's name.
package final class PeerGate {
  /// The name of the gate's sockets, which distinguishes them from other sockets in the process.
  package let domain: String
  private var policy = ZapPolicy()
  private var connections = PeerConnections()
  private var lastConnection: UInt64 = 0
  private let report: (PeerRefusal) -> Void
  // Only the handler answers handshakes: it must live as long as any of the sockets.
  private let handler: ZapHandler

  /// The number of refused handshakes.
  package private(set) var refusedCount: UInt64 = 0
  /// The number of ignored messages.
  package private(set) var droppedCount: UInt64 = 0

  init(_ domain: String, of handler: ZapHandler, report: @escaping (PeerRefusal) -> Void) {
    self.domain = domain
    self.handler = handler
    self.report = report
  }

  /// Allows the peer with this key to connect, under these names instead of its former ones.
  /// - Returns: Whether the peer may connect. A revoked key stays revoked.
  @discardableResult
  package func allow(_ key: PublicKey, as names: ZapPolicy.Names) -> Bool {
    policy.allow(key, as: names)
  }

  /// Revokes a key: cuts the peer's connections and rejects new ones.
  package func revoke(_ key: PublicKey) {
    if let member = policy.revoke(key) { connections.cut(of: member) }
  }

  /// Admits peers to this socket by the policy. Call this before `bind`.
  /// - Parameter pair: The socket's key pair. The peers know its public half.
  package func secure(_ socket: Socket, as pair: CurveKeyPair) throws(TransportError) {
    try socket.serveCurve(as: pair, domain: domain)
    socket.gate = self
  }

  // MARK: Handshakes

  func answer(_ request: ZapRequest) -> [[UInt8]] {
    let verdict = request.key.map { policy.verdict(on: $0) } ?? .unknown
    switch verdict {
    case .member: lastConnection += 1
    case .unknown: refuse(.unknownKey, request)
    case .revoked: refuse(.revokedKey, request)
    }
    return request.reply(verdict, connection: lastConnection)
  }

  private func refuse(_ reason: PeerRefusal.Reason, _ request: ZapRequest) {
    refusedCount += 1
    guard refusedCount.isWorthLogging else { return }
    report(
      PeerRefusal(reason: reason, key: request.key, address: request.address, count: refusedCount))
  }

  // MARK: Messages

  /// Returns whether a message may be read.
  /// - Parameter name: The message's routing id; `nil` if the socket does not know routing ids.
  func admits(_ message: inout zmq_msg_t, as name: [UInt8]?) -> Bool {
    guard let user = zmq_msg_gets(&message, Self.user) else {
      // Messages from this process have no properties. All other messages follow a handshake.
      guard zmq_msg_gets(&message, Self.address) != nil else { return true }
      drop(&message, .keyNotAllowed, nil)
      return false
    }
    guard let tag = ConnectionTag(user) else {
      drop(&message, .keyNotAllowed, nil)
      return false
    }
    switch policy.admission(of: tag.member, as: name) {
    case .admitted:
      if !connections.contains(tag), let descriptor = Self.descriptor(of: &message) {
        connections.add(tag, descriptor)
      }
      return true
    case .foreignName:
      // A routing id made by libzmq begins with a zero byte.
      let own = name?.first == 0 ? [] : name ?? []
      drop(&message, .foreignName(String(decoding: own, as: UTF8.self)), tag)
    case .revoked:
      drop(&message, .keyNotAllowed, tag)
    }
    return false
  }

  // Source: zmq_msg_gets(3).
  private static let user = "User-Id"
  private static let address = "Peer-Address"

  private static func descriptor(of message: inout zmq_msg_t) -> Int32? {
    let descriptor = zmq_msg_get(&message, ZMQ_SRCFD)
    return descriptor >= 0 ? descriptor : nil
  }

  private func drop(_ message: inout zmq_msg_t, _ reason: PeerRefusal.Reason, _ tag: ConnectionTag?)
  {
    droppedCount += 1
    if droppedCount.isWorthLogging {
      let address = zmq_msg_gets(&message, Self.address).map { String(cString: $0) } ?? ""
      report(
        PeerRefusal(
          reason: reason, key: tag.flatMap { policy.key(of: $0.member) }, address: address,
          count: droppedCount))
    }
    // Otherwise the peer would keep the name and receive the messages sent to that name.
    guard let tag, let descriptor = Self.descriptor(of: &message) else { return }
    if !connections.contains(tag) { connections.add(tag, descriptor) }
    connections.cut(tag)
  }
}
