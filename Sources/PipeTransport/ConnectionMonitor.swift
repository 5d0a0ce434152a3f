import CZMQ

/// Tells when a socket's connections come and go.
package final class ConnectionMonitor {
  package enum Event: Sendable { case connected, disconnected }

  package let socket: Socket
  private let watched: Socket

  package init(of watched: Socket, in context: Context) throws(TransportError) {
    self.watched = watched
    let endpoint = "inproc://monitor-\(UInt(bitPattern: watched.handle))"
    let events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED
    guard zmq_socket_monitor(watched.handle, endpoint, events) == 0 else {
      throw .last("zmq_socket_monitor", endpoint: endpoint)
    }
    socket = try Socket(.pair, in: context)
    try socket.connect(endpoint)
  }

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
    // Two parts: a 16-bit event with a 32-bit value, and the endpoint.
    while let parts = socket.receiveAll() {
      guard parts.count == 2, parts[0].count >= 2 else { continue }
      let code = parts[0].withUnsafeBytes { Int32($0.loadUnaligned(as: UInt16.self)) }
      event(
        code == ZMQ_EVENT_DISCONNECTED ? .disconnected : .connected,
        String(decoding: parts[1], as: UTF8.self))
    }
  }
}
