import CZMQ

/// Tells when a socket's connections come and go.
package final class ConnectionMonitor {
  package enum Event: Sendable { case connected, disconnected }

  /// What becomes of attempts to connect, where that is asked for.
  package enum Attempt: Hashable, Sendable {
    /// Somebody has answered; who it is, the handshake tells.
    case opened
    /// The handshake has failed: it is somebody else, who has another key, or who does not go on.
    case failed
    /// The other end does not let in this end's key.
    case turnedAway
    case event(Event)
  }

  package let socket: Socket
  private let watched: Socket

  /// - Parameter tellsAttempts: Whether ``readAttempts(_:)`` is to tell more than connections.
  package init(
    of watched: Socket, in context: Context, tellsAttempts: Bool = false
  ) throws(TransportError) {
    self.watched = watched
    let endpoint = "inproc://monitor-\(UInt(bitPattern: watched.handle))"
    let events =
      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED
      | (tellsAttempts ? Self.ofAttempts : 0)
    guard zmq_socket_monitor(watched.handle, endpoint, events) == 0 else {
      throw .last("zmq_socket_monitor", endpoint: endpoint)
    }
    socket = try Socket(.pair, in: context)
    try socket.connect(endpoint)
  }

  private static let ofAttempts =
    ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH

  /// Watches no longer; to be called before the watched socket is closed.
  ///
  /// libzmq's thread waits until somebody takes what it tells: without a reader it would do so until its
  /// context ends, and serve no other socket.
  package func close() {
    watched.stopTelling()
    socket.close()
  }

  /// Reads what has happened since the last call.
  package func read(_ event: (Event) -> Void) { readEndpoints { what, _ in event(what) } }

  /// Reads what has happened since the last call, and to which connection.
  /// - Parameter event: Called with the endpoint as it was given to `connect`, where this end has connected.
  package func readEndpoints(_ event: (Event, _ endpoint: String) -> Void) {
    readCodes { code, endpoint in
      event(code == ZMQ_EVENT_DISCONNECTED ? .disconnected : .connected, endpoint)
    }
  }

  /// Reads what has happened since the last call, with the attempts that it was made to tell.
  package func readAttempts(_ attempt: (Attempt) -> Void) {
    readCodes { code, _ in
      switch code {
      case ZMQ_EVENT_CONNECTED: attempt(.opened)
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: attempt(.event(.connected))
      case ZMQ_EVENT_DISCONNECTED: attempt(.event(.disconnected))
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: attempt(.turnedAway)
      default: attempt(.failed)
      }
    }
  }

  private func readCodes(_ take: (Int32, _ endpoint: String) -> Void) {
    // Two parts: a 16-bit event with a 32-bit value, and the endpoint.
    while let parts = socket.receiveAll() {
      guard parts.count == 2, parts[0].count >= 2 else { continue }
      let code = parts[0].withUnsafeBytes { Int32($0.loadUnaligned(as: UInt16.self)) }
      take(code, String(decoding: parts[1], as: UTF8.self))
    }
  }
}
