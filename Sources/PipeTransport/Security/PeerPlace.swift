import CZMQ

/// Where a socket of a peer is bound, and by which keys it is connected to.
package struct PeerPlace: Sendable {
  /// What a connection is made with off one host.
  private struct Keys: Sendable {
    let peer: PublicKey
    let own: CurveKeyPair
  }

  package let endpoint: String
  private let keys: Keys?

  /// On this host, where nobody needs a key.
  package init(_ endpoint: String) {
    self.endpoint = endpoint
    keys = nil
  }

  /// - Parameters:
  ///   - key: The peer's; none but who has its other half is talked with.
  ///   - own: This end's, by which the peer lets it in.
  package init(_ endpoint: String, key: PublicKey, own: CurveKeyPair) {
    self.endpoint = endpoint
    keys = Keys(peer: key, own: own)
  }

  func connect(_ socket: Socket) throws(TransportError) {
    if let keys {
      try socket.connect(endpoint, to: keys.peer, as: keys.own)
    } else {
      try socket.connect(endpoint)
    }
  }
}

extension Socket {
  /// Connects to a peer with the keys that its place asks for: another connection of the socket may have others.
  package func connect(to place: PeerPlace) throws(TransportError) { try place.connect(self) }
}

extension Socket {
  /// Takes none but those who know the public key of the pair, and whom the ZAP handler lets in.
  func serveCurve(as pair: CurveKeyPair, domain: String) throws(TransportError) {
    try set(ZMQ_CURVE_SERVER, 1)
    try set(ZMQ_ZAP_DOMAIN, Array(domain.utf8))
    try setKeys(pair)
    try setNetworkLimits()
  }

  /// Connects to a socket on any host that has the secret half of this key, and to no other.
  ///
  /// The name in the endpoint is resolved again at each connect.
  /// - Parameter pair: Its own, by which the other one lets it in.
  package func connect(
    _ endpoint: String, to key: PublicKey, as pair: CurveKeyPair
  ) throws(TransportError) {
    try set(ZMQ_CURVE_SERVERKEY, Array(key.text.utf8))
    try setKeys(pair)
    try setNetworkLimits()
    try connect(endpoint)
  }

  private func setKeys(_ pair: CurveKeyPair) throws(TransportError) {
    try set(ZMQ_CURVE_PUBLICKEY, Array(pair.publicKey.text.utf8))
    let code = pair.withSecret {
      zmq_setsockopt(handle, ZMQ_CURVE_SECRETKEY, $0.baseAddress, $0.count)
    }
    guard code == 0 else { throw .last("zmq_setsockopt(ZMQ_CURVE_SECRETKEY)") }
  }

  /// How soon a network that carries nothing is noticed, by both ends, and one that does again.
  private func setNetworkLimits() throws(TransportError) {
    // A peer that says nothing is asked every second, and given up after three more.
    try set(ZMQ_HEARTBEAT_IVL, 1_000)
    try set(ZMQ_HEARTBEAT_TIMEOUT, 3_000)
    try set(ZMQ_HEARTBEAT_TTL, 3_000)
    try set(ZMQ_TCP_MAXRT, 3_000)
    // The system alone would wait for minutes, and then answer the next attempt no sooner.
    try set(ZMQ_CONNECT_TIMEOUT, 400)
    try set(ZMQ_HANDSHAKE_IVL, 2_000)
  }

  /// Where the last `bind` has led to: with the port that the system has chosen.
  package var lastEndpoint: String? {
    var text = [CChar](repeating: 0, count: 256)
    var count = text.count
    guard zmq_getsockopt(handle, ZMQ_LAST_ENDPOINT, &text, &count) == 0, count > 0 else {
      return nil
    }
    return String(decoding: text.prefix(count - 1).map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}
