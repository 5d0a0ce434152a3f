import CZMQ

/// The endpoint of a peer's socket, and the keys for connecting to it.
package struct PeerEndpoint: Sendable {
  /// The keys for a connection between hosts.
  private struct Keys: Sendable {
    let peerKey: PublicKey
    let ownKeyPair: CurveKeyPair
  }

  package let endpoint: String
  private let keys: Keys?

  /// Creates an endpoint on this host, where connections require no keys.
  package init(_ endpoint: String) {
    self.endpoint = endpoint
    keys = nil
  }

  /// - Parameters:
  ///   - key: The peer's public key. A process without the matching secret key is rejected.
  ///   - own: This process's key pair, which the peer's gate must allow.
  package init(_ endpoint: String, key: PublicKey, own: CurveKeyPair) {
    self.endpoint = endpoint
    keys = Keys(peerKey: key, ownKeyPair: own)
  }

  func connect(_ socket: Socket) throws(TransportError) {
    if let keys {
      try socket.connect(endpoint, to: keys.peerKey, as: keys.ownKeyPair)
    } else {
      try socket.connect(endpoint)
    }
  }
}

extension Socket {
  /// Connects to a peer with the endpoint's keys. Other connections of the socket may use other
  /// keys.
  package func connect(to peerEndpoint: PeerEndpoint) throws(TransportError) {
    try peerEndpoint.connect(self)
  }
}

extension Socket {
  /// Accepts only peers that know the public key of the pair and that the ZAP handler admits.
  func serveCurve(as pair: CurveKeyPair, domain: String) throws(TransportError) {
    try set(ZMQ_CURVE_SERVER, 1)
    try set(ZMQ_ZAP_DOMAIN, Array(domain.utf8))
    try setKeys(pair)
    try setNetworkLimits()
  }

  /// Connects to an endpoint, and rejects a peer without the secret half of the key.
  ///
  /// The host name in the endpoint is resolved again for each attempt to connect.
  /// - Parameter pair: This process's key pair, which the peer's gate must allow.
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
    guard code == 0 else { throw .lastError("zmq_setsockopt(ZMQ_CURVE_SECRETKEY)") }
  }

  /// Sets how soon both ends notice that the network is down, and that it is up again.
  private func setNetworkLimits() throws(TransportError) {
    // A silent peer gets a heartbeat every second. After three more seconds of silence the
    // connection is closed.
    try set(ZMQ_HEARTBEAT_IVL, 1_000)
    try set(ZMQ_HEARTBEAT_TIMEOUT, 3_000)
    try set(ZMQ_HEARTBEAT_TTL, 3_000)
    try set(ZMQ_TCP_MAXRT, 3_000)
    // The system's own limit is several minutes. A new attempt is better than such a long wait.
    try set(ZMQ_CONNECT_TIMEOUT, 400)
    try set(ZMQ_HANDSHAKE_IVL, 2_000)
  }

  /// The endpoint of the last `bind`, with the port that the system has chosen.
  package var lastEndpoint: String? {
    var text = [CChar](repeating: 0, count: 256)
    var count = text.count
    guard zmq_getsockopt(handle, ZMQ_LAST_ENDPOINT, &text, &count) == 0, count > 0 else {
      return nil
    }
    return String(decoding: text.prefix(count - 1).map(UInt8.init(bitPattern:)), as: UTF8.self)
  }
}
