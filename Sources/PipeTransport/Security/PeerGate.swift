import CZMQ
import PipeSupport

/// Who may connect to some sockets of this process, which are bound for other hosts.
///
/// It answers handshakes by its ``ZapPolicy``. A handshake does not tell the routing id, so that each message
/// is looked at as well: one that comes under another one's name is passed over.
package final class PeerGate {
  /// Tells its sockets from those of others in the process.
  package let domain: String
  private var policy = ZapPolicy()
  private var connections = PeerConnections()
  private var lastConnection: UInt64 = 0
  private let report: (PeerRefusal) -> Void
  // Nobody else answers handshakes: it must be there as long as any of the sockets.
  private let handler: ZapHandler

  /// Handshakes that were refused.
  package private(set) var refusedCount: UInt64 = 0
  /// Messages that were passed over.
  package private(set) var droppedCount: UInt64 = 0

  init(_ domain: String, of handler: ZapHandler, report: @escaping (PeerRefusal) -> Void) {
    self.domain = domain
    self.handler = handler
    self.report = report
  }

  /// Lets the peer with this key connect, under these names in place of the former ones.
  /// - Returns: Whether it may: a key that was revoked stays so.
  @discardableResult
  package func allow(_ key: PublicKey, as names: ZapPolicy.Names) -> Bool {
    policy.allow(key, as: names)
  }

  /// Turns the peer with this key away from now on, and cuts its connections.
  package func revoke(_ key: PublicKey) {
    if let member = policy.revoke(key) { connections.cut(of: member) }
  }

  /// Lets in who connects to this socket by the policy. Before `bind`.
  /// - Parameter pair: The sockets', whose public half the peers know.
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

  /// Whether a message may be read.
  /// - Parameter name: The routing id that it came under; `nil` where its socket knows none.
  func admits(_ message: inout zmq_msg_t, as name: [UInt8]?) -> Bool {
    guard let user = zmq_msg_gets(&message, Self.user) else {
      // What comes from this process itself has no properties. All else has had its handshake.
      guard zmq_msg_gets(&message, Self.address) != nil else { return true }
      drop(&message, .afterwards, nil)
      return false
    }
    guard let tag = ConnectionTag(user) else {
      drop(&message, .afterwards, nil)
      return false
    }
    switch policy.admission(of: tag.member, as: name) {
    case .admitted:
      if !connections.contains(tag), let descriptor = Self.descriptor(of: &message) {
        connections.add(tag, descriptor)
      }
      return true
    case .foreignName:
      // One that begins with a zero has libzmq made.
      let own = name?.first == 0 ? [] : name ?? []
      drop(&message, .foreignName(String(decoding: own, as: UTF8.self)), tag)
    case .revoked:
      drop(&message, .afterwards, tag)
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
    // It goes on to hold the name else, and hears what is said to it.
    guard let tag, let descriptor = Self.descriptor(of: &message) else { return }
    if !connections.contains(tag) { connections.add(tag, descriptor) }
    connections.cut(tag)
  }
}
