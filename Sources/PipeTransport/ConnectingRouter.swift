import CZMQ
import PipeWire

/// A ROUTER that connects to many peers: one descriptor to wait for, and one for all that comes and goes.
///
/// A peer has a number, which the caller gives it. libzmq knows a connection by a routing id of ours, and ends
/// the process where one is given twice: each connection has another, so that one that is still ending is in
/// nobody's way, and what it still brings is passed over. Source: zmq_setsockopt(3), ZMQ_CONNECT_ROUTING_ID.
package final class ConnectingRouter {
  private struct Connection {
    let endpoint: String
    /// What libzmq calls it.
    let id: [UInt8]
  }

  package let socket: Socket
  package let context: Context
  /// Tells of connections, but of those within this process.
  private let monitor: ConnectionMonitor
  // Exclusivity is not checked at run time for what each message touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private var connections: [Connection?] = []
  private var peers: [String: Int] = [:]
  private var count: UInt32 = 0

  /// - Parameter name: By which the peers know this socket.
  package init(as name: String, in context: Context) throws(TransportError) {
    self.context = context
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.setRoutingID(name)
    monitor = try ConnectionMonitor(of: socket, in: context)
  }

  /// Readable when ``readConnections(_:)`` has something to tell.
  package var monitorSocket: Socket { monitor.socket }

  /// Connects to a peer, in place of the connection that there was; what was queued for that is gone.
  /// - Parameters:
  ///   - peer: From 0, without large gaps.
  ///   - place: Each peer's endpoint is another.
  package func connect(_ peer: Int, to place: PeerPlace) throws(TransportError) {
    disconnect(peer)
    while connections.count <= peer { connections.append(nil) }
    count &+= 1
    let id = Self.id(of: peer, count: count)
    try socket.set(ZMQ_CONNECT_ROUTING_ID, id)
    try socket.connect(to: place)
    connections[peer] = Connection(endpoint: place.endpoint, id: id)
    peers[place.endpoint] = peer
  }

  /// Parts from a peer, if it was connected to; what was queued for it is gone.
  package func disconnect(_ peer: Int) {
    guard connections.indices.contains(peer), let former = connections[peer] else { return }
    socket.disconnect(former.endpoint)
    peers[former.endpoint] = nil
    connections[peer] = nil
  }

  /// Sends one frame; what goes to a peer that is not connected yet waits for that.
  @discardableResult
  package func send(_ header: FrameHeader, body: [UInt8] = [], to peer: Int) -> Socket.Sent {
    guard let id = id(of: peer) else { return .unroutable }
    return socket.send(header, body: body, to: id)
  }

  /// Sends a message without a byte.
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

  /// Reads what has happened to connections since the last call.
  package func readConnections(_ event: (_ peer: Int, ConnectionMonitor.Event) -> Void) {
    monitor.readEndpoints { what, endpoint in
      if let peer = peers[endpoint] { event(peer, what) }
    }
  }

  /// Closes it; what is queued goes out within the linger.
  /// - Parameter linger: Unit: milliseconds.
  package func close(linger: Int32) {
    monitor.close()
    socket.setLinger(milliseconds: linger)
    socket.close()
  }

  // MARK: Routing ids

  private func id(of peer: Int) -> [UInt8]? {
    connections.indices.contains(peer) ? connections[peer]?.id : nil
  }

  /// Eight bytes, the first of which is none that libzmq gives by itself: the peer and the connection.
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
