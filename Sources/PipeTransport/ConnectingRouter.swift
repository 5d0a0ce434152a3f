import CZMQ
import PipeWire

/// A ROUTER socket that connects to many peers, with one descriptor for messages and one for
/// connection events.
///
/// The caller identifies each peer by a number. Each connection gets a new routing id: libzmq
/// aborts the process when two connections have the same routing id, and an earlier connection may
/// still be closing. Messages from a connection that has been replaced are ignored. Source:
/// zmq_setsockopt(3), ZMQ_CONNECT_ROUTING_ID.
package final class ConnectingRouter {
  private struct Connection {
    let endpoint: String
    /// The routing id, which no earlier connection had.
    let id: [UInt8]
  }

  package let socket: Socket
  package let context: Context
  /// Reports when connections open and close, except connections within this process.
  private let monitor: ConnectionMonitor
  // Exclusivity is not checked at run time, because each message reads this array, and only the
  // loop's thread uses the array.
  @exclusivity(unchecked)
  private var connections: [Connection?] = []
  /// The peers' numbers by endpoint.
  private var peersByEndpoint: [String: Int] = [:]
  /// The number of connections made so far.
  private var connectionCount: UInt32 = 0

  /// - Parameter name: The routing id by which the peers know this socket.
  package init(as name: String, in context: Context) throws(TransportError) {
    self.context = context
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.setRoutingID(name)
    monitor = try ConnectionMonitor(of: socket, in: context)
  }

  /// The socket that becomes readable when ``readConnectionEvents(_:)`` has events to report.
  package var monitorSocket: Socket { monitor.socket }

  /// Connects to a peer, and closes any earlier connection to the same peer. Messages queued on the
  /// earlier connection are lost.
  /// - Parameters:
  ///   - peer: The peer's number. Numbers are indices into an array: they begin at 0 and have no
  ///     large gaps.
  ///   - peerEndpoint: The peer's endpoint. No other peer may have the same endpoint.
  package func connect(_ peer: Int, to peerEndpoint: PeerEndpoint) throws(TransportError) {
    disconnect(peer)
    while connections.count <= peer { connections.append(nil) }
    connectionCount &+= 1
    let id = Self.id(of: peer, count: connectionCount)
    try socket.set(ZMQ_CONNECT_ROUTING_ID, id)
    try socket.connect(to: peerEndpoint)
    connections[peer] = Connection(endpoint: peerEndpoint.endpoint, id: id)
    peersByEndpoint[peerEndpoint.endpoint] = peer
  }

  /// Disconnects from a peer; does nothing if the peer is not connected. Messages queued for the
  /// peer are lost.
  package func disconnect(_ peer: Int) {
    guard connections.indices.contains(peer), let former = connections[peer] else { return }
    socket.disconnect(former.endpoint)
    peersByEndpoint[former.endpoint] = nil
    connections[peer] = nil
  }

  /// Sends one frame. A frame to a peer that is not connected yet waits for the connection.
  @discardableResult
  package func send(_ header: FrameHeader, body: [UInt8] = [], to peer: Int) -> Socket.SendResult {
    guard let id = id(of: peer) else { return .unroutable }
    return socket.send(header, body: body, to: id)
  }

  /// Sends an empty message, with which a coordinator asks a participant to join.
  package func sendEmpty(to peer: Int) {
    guard let id = id(of: peer), case .queued = socket.sendPart(id, more: true) else { return }
    socket.sendPart([], more: false)
  }

  /// Reads one message, if any is waiting. The bytes are valid only during the call of `body`.
  /// - Returns: Whether a message was waiting, even if the message came from a replaced connection
  ///   and was ignored.
  package func receive(_ body: (_ peer: Int, UnsafeRawBufferPointer) -> Void) -> Bool {
    socket.receive { id, bytes in
      let peer = Self.peerNumber(of: id)
      guard let peer, self.id(of: peer) == id else { return }
      body(peer, bytes)
    }
  }

  /// Calls `event` for each connection event since the last call.
  package func readConnectionEvents(_ event: (_ peer: Int, ConnectionMonitor.Event) -> Void) {
    monitor.readEndpoints { what, endpoint in
      if let peer = peersByEndpoint[endpoint] { event(peer, what) }
    }
  }

  /// Closes the socket. Queued messages are sent within the linger period.
  /// - Parameter linger: The linger period. Unit: milliseconds.
  package func close(linger: Int32) {
    monitor.close()
    socket.setLinger(milliseconds: linger)
    socket.close()
  }

  // MARK: Routing ids

  private func id(of peer: Int) -> [UInt8]? {
    connections.indices.contains(peer) ? connections[peer]?.id : nil
  }

  /// Returns a routing id of eight bytes: a 1, the peer's number (3 bytes) and the connection's
  /// number (4 bytes). Routing ids that libzmq generates begin with 0.
  private static func id(of peer: Int, count: UInt32) -> [UInt8] {
    var id = [UInt8(1)]
    for shift in stride(from: 0, to: 24, by: 8) {
      id.append(UInt8(truncatingIfNeeded: peer >> shift))
    }
    for shift in stride(from: 0, to: 32, by: 8) {
      id.append(UInt8(truncatingIfNeeded: count >> UInt32(shift)))
    }
    return id
  }

  private static func peerNumber(of id: [UInt8]) -> Int? {
    guard id.count == 8, id[0] == 1 else { return nil }
    return Int(id[1]) | Int(id[2]) << 8 | Int(id[3]) << 16
  }
}
