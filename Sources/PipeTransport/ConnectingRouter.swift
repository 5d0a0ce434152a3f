import CZMQ
import PipeWire

/// A ROUTER socket that connects to many peers, with one descriptor for messages and one for
/// connection events.
///
/// The caller numbers the peers. libzmq identifies a connection by the routing id that this type
/// assigns, and ends the process when two connections get the same id. So each connection gets a
/// new routing id: a connection that is still closing does not conflict with its successor, and
/// messages that it still delivers are ignored. Source: zmq_setsockopt(3), ZMQ_CONNECT_ROUTING_ID.
package final class ConnectingRouter {
  private struct Connection {
    let endpoint: String
    /// The routing id of the connection.
    let id: [UInt8]
  }

  package let socket: Socket
  package let context: Context
  /// Reports when connections open and close, except connections within this process.
  private let monitor: ConnectionMonitor
  // No run-time exclusivity checks for state that each message touches: only the loop's thread uses it.
  @exclusivity(unchecked)
  private var connections: [Connection?] = []
  private var peers: [String: Int] = [:]
  private var count: UInt32 = 0

  /// - Parameter name: The routing id by which the peers know this socket.
  package init(as name: String, in context: Context) throws(TransportError) {
    self.context = context
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.setRoutingID(name)
    monitor = try ConnectionMonitor(of: socket, in: context)
  }

  /// The socket that becomes readable when ``readConnections(_:)`` has events to report.
  package var monitorSocket: Socket { monitor.socket }

  /// Connects to a peer and replaces its former connection. Messages queued for the former
  /// connection are lost.
  /// - Parameters:
  ///   - peer: The peer's number, from 0 and without large gaps.
  ///   - peerEndpoint: The peer's endpoint, which no other peer has.
  package func connect(_ peer: Int, to peerEndpoint: PeerEndpoint) throws(TransportError) {
    disconnect(peer)
    while connections.count <= peer { connections.append(nil) }
    count &+= 1
    let id = Self.id(of: peer, count: count)
    try socket.set(ZMQ_CONNECT_ROUTING_ID, id)
    try socket.connect(to: peerEndpoint)
    connections[peer] = Connection(endpoint: peerEndpoint.endpoint, id: id)
    peers[peerEndpoint.endpoint] = peer
  }

  /// Disconnects from a peer if it is connected. Messages queued for the peer are lost.
  package func disconnect(_ peer: Int) {
    guard connections.indices.contains(peer), let former = connections[peer] else { return }
    socket.disconnect(former.endpoint)
    peers[former.endpoint] = nil
    connections[peer] = nil
  }

  /// Sends one frame. A frame to a peer that is not connected yet waits for the connection.
  @discardableResult
  package func send(_ header: FrameHeader, body: [UInt8] = [], to peer: Int) -> Socket.SendResult {
    guard let id = id(of: peer) else { return .unroutable }
    return socket.send(header, body: body, to: id)
  }

  /// Sends an empty message.
  package func sendEmpty(to peer: Int) {
    guard let id = id(of: peer), case .queued = socket.sendPart(id, more: true) else { return }
    socket.sendPart([], more: false)
  }

  /// Reads one message, if one waits; the bytes are valid during the call only.
  /// - Returns: Whether there was a message.
  package func receive(_ body: (_ peer: Int, UnsafeRawBufferPointer) -> Void) -> Bool {
    socket.receive { id, bytes in
      let peer = Self.peer(of: id)
      guard let peer, self.id(of: peer) == id else { return }
      body(peer, bytes)
    }
  }

  /// Reads the connection events since the last call.
  package func readConnections(_ event: (_ peer: Int, ConnectionMonitor.Event) -> Void) {
    monitor.readEndpoints { what, endpoint in
      if let peer = peers[endpoint] { event(peer, what) }
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

  /// Returns a routing id of eight bytes: a 1, the peer's number and the connection's number.
  /// Routing ids that libzmq makes begin with 0.
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

  private static func peer(of id: [UInt8]) -> Int? {
    guard id.count == 8, id[0] == 1 else { return nil }
    return Int(id[1]) | Int(id[2]) << 8 | Int(id[3]) << 16
  }
}
