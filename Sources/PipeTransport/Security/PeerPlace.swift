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
