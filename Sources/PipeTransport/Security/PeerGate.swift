import CZMQ
import PipeSupport

/// Controls which peers on other hosts may connect to this process's sockets.
///
/// The gate answers handshakes according to its ``ZapPolicy``. A handshake does not contain the
/// peer's routing id. So the gate also checks each message, and ignores a message with another
/// peer's routing id.
package final class PeerGate {
  /// The ZAP domain, by which libzmq's requests name the gate. Each gate of the process has a
  /// different domain.
  package let domain: String
  private var policy = ZapPolicy()
  private var connections = PeerConnections()
  private var lastConnection: UInt64 = 0
  private let reportRefusal: (PeerRefusal) -> Void
  // A strong reference: no handshake succeeds without the handler, so the handler must live as long
  // as the sockets.
  private let handler: ZapHandler

  /// The number of refused handshakes.
  package private(set) var refusedCount: UInt64 = 0
  /// The number of ignored messages.
  package private(set) var droppedCount: UInt64 = 0

  init(_ domain: String, of handler: ZapHandler, report: @escaping (PeerRefusal) -> Void) {
    self.domain = domain
    self.handler = handler
    self.reportRefusal = report
  }

  /// Allows the peer with this key to connect and to use the routing ids `routingIDs`. They replace
  /// the routing ids that an earlier call has allowed.
  /// - Returns: Whether the peer may connect; `false` for a revoked key, which stays revoked.
  @discardableResult
  package func allow(_ key: PublicKey, as routingIDs: ZapPolicy.AllowedRoutingIDs) -> Bool {
    policy.allow(key, as: routingIDs)
  }

  /// Revokes a key: shuts down the peer's connections and rejects new connections.
  package func revoke(_ key: PublicKey) {
    if let member = policy.revoke(key) { connections.cut(of: member) }
  }

  /// Restricts the socket to peers that the policy allows. Call this before `bind`.
  /// - Parameter pair: The socket's key pair. The peers know its public half.
  package func secure(_ socket: Socket, as pair: CurveKeyPair) throws(TransportError) {
    try socket.serveCurve(as: pair, domain: domain)
    socket.gate = self
  }

  // MARK: Answers to handshakes

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
    reportRefusal(
      PeerRefusal(reason: reason, key: request.key, address: request.address, count: refusedCount))
  }

  // MARK: Checks of messages

  /// Returns whether a message may be read.
  /// - Parameter name: The message's routing id; `nil` if the socket's type has no routing ids.
  func admits(_ message: inout zmq_msg_t, as name: [UInt8]?) -> Bool {
    guard let user = zmq_msg_gets(&message, Self.userProperty) else {
      // A message from within this process has no address. All other messages must follow a
      // handshake.
      guard zmq_msg_gets(&message, Self.addressProperty) != nil else { return true }
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
      // A routing id that libzmq has generated begins with a zero byte.
      let own = name?.first == 0 ? [] : name ?? []
      drop(&message, .foreignName(String(decoding: own, as: UTF8.self)), tag)
    case .revoked:
      drop(&message, .keyNotAllowed, tag)
    }
    return false
  }

  // Source: zmq_msg_gets(3).
  private static let userProperty = "User-Id"
  private static let addressProperty = "Peer-Address"

  private static func descriptor(of message: inout zmq_msg_t) -> Int32? {
    let descriptor = zmq_msg_get(&message, ZMQ_SRCFD)
    return descriptor >= 0 ? descriptor : nil
  }

  private func drop(_ message: inout zmq_msg_t, _ reason: PeerRefusal.Reason, _ tag: ConnectionTag?)
  {
    droppedCount += 1
    if droppedCount.isWorthLogging {
      let address = zmq_msg_gets(&message, Self.addressProperty).map { String(cString: $0) } ?? ""
      reportRefusal(
        PeerRefusal(
          reason: reason, key: tag.flatMap { policy.key(of: $0.member) }, address: address,
          count: droppedCount))
    }
    // Cuts the peer's connection. Otherwise, the peer would keep the routing id, and would receive
    // messages that are meant for another peer.
    guard let tag, let descriptor = Self.descriptor(of: &message) else { return }
    if !connections.contains(tag) { connections.add(tag, descriptor) }
    connections.cut(tag)
  }
}
