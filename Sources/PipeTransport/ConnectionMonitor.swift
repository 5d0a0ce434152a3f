import CZMQ

/// Reports when a socket's connections open and close.
package final class ConnectionMonitor {
  package enum Event: Sendable { case connected, disconnected }

  /// The outcome of an attempt to connect. Only a monitor created with `reportsAttempts` reports
  /// attempts.
  package enum Attempt: Hashable, Sendable {
    /// The transport connection is open. The handshake then authenticates the peer.
    case opened
    /// The handshake failed: a process with a different key answered, or the peer stopped
    /// responding.
    case failed
    /// The peer rejected this process's key.
    case keyRejected
    /// The handshake succeeded, or an established connection closed.
    case event(Event)
  }

  package let socket: Socket
  private let watchedSocket: Socket

  /// - Parameter reportsAttempts: Whether ``readAttempts(_:)`` reports attempts as well as
  ///   connections.
  package init(
    of watched: Socket, in context: Context, reportsAttempts: Bool = false
  ) throws(TransportError) {
    self.watchedSocket = watched
    let endpoint = "inproc://monitor-\(UInt(bitPattern: watched.handle))"
    let events =
      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED
      | (reportsAttempts ? Self.attemptEvents : 0)
    guard zmq_socket_monitor(watched.handle, endpoint, events) == 0 else {
      throw .lastError("zmq_socket_monitor", endpoint: endpoint)
    }
    socket = try Socket(.pair, in: context)
    try socket.connect(endpoint)
  }

  private static let attemptEvents =
    ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH

  /// Stops monitoring. Call this before you close the watched socket.
  ///
  /// Without this call, libzmq's thread would wait for a reader of the monitor's events, and serve
  /// no other socket, until the context ends.
  package func close() {
    watchedSocket.stopMonitoring()
    socket.close()
  }

  /// Calls `event` for each event since the last call.
  package func read(_ event: (Event) -> Void) { readEndpoints { what, _ in event(what) } }

  /// Calls `event` for each event since the last call, with the endpoint of the connection.
  /// - Parameter event: Called for each event. If this end connected, `endpoint` is the endpoint
  ///   that was passed to `connect`.
  package func readEndpoints(_ event: (Event, _ endpoint: String) -> Void) {
    readEventCodes { code, endpoint in
      event(code == ZMQ_EVENT_DISCONNECTED ? .disconnected : .connected, endpoint)
    }
  }

  /// Calls `attempt` for each event since the last call. The events include attempts if the monitor
  /// was created with `reportsAttempts`.
  package func readAttempts(_ attempt: (Attempt) -> Void) {
    readEventCodes { code, _ in
      switch code {
      case ZMQ_EVENT_CONNECTED: attempt(.opened)
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: attempt(.event(.connected))
      case ZMQ_EVENT_DISCONNECTED: attempt(.event(.disconnected))
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: attempt(.keyRejected)
      default: attempt(.failed)
      }
    }
  }

  private func readEventCodes(_ handle: (Int32, _ endpoint: String) -> Void) {
    // A message has two parts: a 16-bit event code with a 32-bit value, and the endpoint.
    while let parts = socket.receiveAll() {
      guard parts.count == 2, parts[0].count >= 2 else { continue }
      let code = parts[0].withUnsafeBytes { Int32($0.loadUnaligned(as: UInt16.self)) }
      handle(code, String(decoding: parts[1], as: UTF8.self))
    }
  }
}
