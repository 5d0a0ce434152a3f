import PipeWire

/// Answers libzmq's authentication requests during handshakes, on the loop that owns the bound
/// sockets.
///
/// A context has one handler. The handler passes each request to the ``PeerGate`` of the socket's
/// domain.
package final class ZapHandler {
  private let socket: Socket
  private struct Gate {
    weak var gate: PeerGate?
  }
  private var gatesByDomain: [String: Gate] = [:]

  /// The endpoint at which libzmq expects a handler. Source: ZeroMQ RFC 27.
  private static let endpoint = "inproc://zeromq.zap.01"
  /// The maximum number of handshakes answered in one turn.
  private static let readsPerTurn = 64

  package init(in context: Context, loop: PollLoop) throws(TransportError) {
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.bind(Self.endpoint)
    loop.add(socket, for: self) { $0.read() }
  }

  deinit { socket.close() }

  /// Creates a gate. The gate keeps this handler alive.
  /// - Parameters:
  ///   - domain: The gate's ZAP domain, which no other gate has.
  ///   - report: Called for the first three refusals, then each time the number of refusals reaches
  ///     a power of two.
  package func makeGate(
    _ domain: String, report: @escaping (PeerRefusal) -> Void
  ) -> PeerGate {
    let gate = PeerGate(domain, of: self, report: report)
    gatesByDomain[domain] = Gate(gate: gate)
    return gate
  }

  private func read() {
    var count = 0
    while count < Self.readsPerTurn, let parts = socket.receiveAll() {
      count += 1
      answer(parts)
    }
  }

  /// Answers one message. The parts of a message are the requester's routing id, an empty part and
  /// the request.
  private func answer(_ parts: [[UInt8]]) {
    guard parts.count > 2, parts[1].isEmpty, let request = ZapRequest(Array(parts[2...])) else {
      return
    }
    let reply =
      gatesByDomain[request.domain]?.gate?.answer(request) ?? request.reply(.unknown, connection: 0)
    let all = [parts[0], []] + reply
    for (index, part) in all.enumerated() {
      // The requester may be gone.
      guard case .queued = socket.sendPart(part, more: index < all.count - 1) else { return }
    }
  }
}

/// A request that libzmq makes during a handshake. Source: ZeroMQ RFC 27.
package struct ZapRequest: Hashable, Sendable {
  package var id: [UInt8]
  /// The domain of the sockets that the peer connects to.
  package var domain: String
  /// The peer's address, without its port.
  package var address: String
  /// The peer's key; `nil` if it has none.
  package var key: PublicKey?

  private static let protocolVersion = Array("1.0".utf8)
  private static let curveMechanism = Array("CURVE".utf8)

  /// Parses the parts after the empty part.
  /// - Returns: `nil` if the parts are not a request.
  package init?(_ parts: [[UInt8]]) {
    guard parts.count >= 6, parts[0] == Self.protocolVersion else { return nil }
    id = parts[1]
    domain = String(decoding: parts[2], as: UTF8.self)
    address = String(decoding: parts[3], as: UTF8.self)
    if parts[5] == Self.curveMechanism, parts.count == 7 { key = PublicKey(bytes: parts[6]) }
  }

  /// Returns the parts of the reply that follow the empty part.
  ///
  /// After status 300 the peer tries to connect again. After status 400 the peer gives up.
  /// - Parameter connection: The connection's number, which no other connection of the gate has.
  package func reply(_ verdict: ZapPolicy.Verdict, connection: UInt64) -> [[UInt8]] {
    let (status, text, user) =
      switch verdict {
      case .member(let number):
        ("200", "OK", ConnectionTag(member: number, connection: connection).text)
      case .unknown: ("300", "not known yet", "")
      case .revoked: ("400", "revoked", "")
      }
    return [Self.protocolVersion, id, Array(status.utf8), Array(text.utf8), Array(user.utf8), []]
  }
}

/// The `User-Id` of the messages on a secured connection: `MEMBER.CONNECTION`.
package struct ConnectionTag: Hashable, Sendable {
  /// The number of the admitted peer.
  package var member: UInt64
  package var connection: UInt64

  package init(member: UInt64, connection: UInt64) {
    self.member = member
    self.connection = connection
  }

  /// - Returns: `nil` if the text is malformed.
  package init?(_ text: UnsafePointer<CChar>) {
    var numbers: [2 of UInt64] = [0, 0]
    var index = 0
    var at = text
    while at.pointee != 0 {
      if at.pointee == 0x2E, index == 0 {
        index = 1
      } else if (0x30...0x39).contains(at.pointee) {
        numbers[index] = numbers[index] &* 10 &+ UInt64(at.pointee - 0x30)
      } else {
        return nil
      }
      at += 1
    }
    guard index == 1 else { return nil }
    self.init(member: numbers[0], connection: numbers[1])
  }

  package var text: String { "\(member).\(connection)" }
}
