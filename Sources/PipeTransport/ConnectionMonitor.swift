import CZMQ

/// Reports when a socket's connections open and close.
package final class ConnectionMonitor {
  package enum Event: Sendable { case connected, disconnected }

  /// The outcome of an attempt to connect. Reported only if requested.
  package enum Attempt: Hashable, Sendable {
    /// The transport connection is open. The handshake then authenticates the peer.
    case opened
    /// The handshake failed: another process with another key has answered, or the peer stopped
    /// responding.
    case failed
    /// The peer rejected this end's key.
    case keyRejected
    case event(Event)
  }

  package let socket: Socket
  private let watched: Socket

  /// - Parameter reportsAttempts: Whether ``readAttempts(_:)`` reports attempts as well as connections.
  package init(
    of watched: Socket, in context: Context, reportsAttempts: Bool = false
  ) throws(TransportError) {
    self.watched = watched
    let endpoint = "inproc://monitor-\(UInt(bitPattern: watched.handle))"
    let events =
      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED
      | (reportsAttempts ? Self.attemptEvents : 0)
    guard zmq_socket_monitor(watched.handle, endpoint, events) == 0 else {
      throw .last("zmq_socket_monitor", endpoint: endpoint)
    }
    socket = try Socket(.pair, in: context)
    try socket.connect(endpoint)
  }

  private static let attemptEvents =
    ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH

  /// Stops monitoring. Call this before you close the watched socket.
  ///
  /// libzmq's thread waits until its events are read. Without a reader the thread would wait until
  /// its context ends, and serve no other socket.
  package func close() {
    watched.stopMonitoring()
    socket.close()
  }

  /// Reads the events since the last call.
  package func read(_ event: (Event) -> Void) { readEndpoints { what, _ in event(what) } }

  /// Reads the events since the last call, with the endpoint of each connection.
  /// - Parameter event: Called with the endpoint that was passed to `connect`, if this end connected.
  package func readEndpoints(_ event: (Event, _ endpoint: String) -> Void) {
    readCodes { code, endpoint in
      event(code == ZMQ_EVENT_DISCONNECTED ? .disconnected : .connected, endpoint)
    }
  }

  /// Reads the events since the last call, including attempts if the monitor reports them.
  package func readAttempts(_ attempt: (Attempt) -> Void) {
    readCodes { code, _ in
      switch code {
      case ZMQ_EVENT_CONNECTED: attempt(.opened)
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: attempt(.event(.connected))
      case ZMQ_EVENT_DISCONNECTED: attempt(.event(.disconnected))
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: attempt(.keyRejected)
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
