import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// The sockets for reports of nodes and requests of clients: one for this host, and a second one for a
/// deployed topology.
final class ControlSocket {
  let socket: Socket
  /// The socket for other hosts, which all nodes use then; `nil` if all nodes are on this host.
  private(set) var network: Socket?
  private let context: Context
  /// The number of invalid messages that were ignored.
  private var invalidMessageCount: UInt64 = 0

  init(at endpoint: String, in context: Context) throws(TransportError) {
    self.context = context
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.setMaximumMessage(byteCount: WireLimits.messageByteCount)
    try socket.bind(endpoint)
  }

  /// Binds a second socket for nodes and clients on other hosts.
  /// - Parameters:
  ///   - number: The port; `nil` lets the system choose one.
  ///   - port: A port that was reserved before.
  /// - Returns: The endpoint, including the port.
  func bindToNetwork(
    at address: String, _ number: Int? = nil, _ port: ReservedPort? = nil, as pair: CurveKeyPair,
    behind gate: PeerGate
  ) throws -> String {
    let network = try Socket(.router, in: context)
    try network.setHighWaterMark(0)
    try network.setMaximumMessage(byteCount: WireLimits.messageByteCount)
    try gate.secure(network, as: pair)
    let endpoint = "tcp://\(address):\(number.map { String($0) } ?? "*")"
    do {
      if let port { try network.bind(port) } else { try network.bind(endpoint) }
    } catch {
      throw ControlBindingError(address: address, port: number, cause: error)
    }
    self.network = network
    return network.lastEndpoint ?? endpoint
  }

  func close() {
    for socket in [socket, network] {
      socket?.setLinger(milliseconds: 500)
      socket?.close()
    }
  }

  /// Reads all frames that have arrived.
  /// - Parameters:
  ///   - take: Handles a frame; throws if the frame is invalid.
  ///   - warn: Called with the error of an ignored frame, less and less often.
  func read(
    _ take: (FrameHeader, [UInt8], ControlPeer) throws -> Void, warn: (String) -> Void
  ) {
    if let network { read(network, .network, take, warn) }
    read(socket, .host, take, warn)
  }

  private func read(
    _ socket: Socket, _ way: ControlPeer.Way,
    _ take: (FrameHeader, [UInt8], ControlPeer) throws -> Void, _ warn: (String) -> Void
  ) {
    while socket.receive({ peer, bytes in
      do {
        try take(
          FrameHeader(bytes), Array(bytes[FrameHeader.byteCount...]),
          ControlPeer(way: way, id: peer))
      } catch {
        invalidMessageCount += 1
        if invalidMessageCount.isWorthLogging {
          warn("ignored \(error) on the control socket (\(invalidMessageCount) so far)")
        }
      }
    }) {}
  }

  /// Returns the node with this routing id, if it is the routing id of a node.
  func node(of peer: ControlPeer) -> String? { name(of: peer, after: WireName.node("")) }

  /// Returns the node whose agent has this routing id, if it is the routing id of an agent.
  func nodeOfAgent(_ peer: ControlPeer) -> String? {
    name(of: peer, after: WireName.agent(ofNode: ""))
  }

  private func name(of peer: ControlPeer, after prefix: String) -> String? {
    guard peer.way == wayOfNodes, peer.id.starts(with: prefix.utf8) else { return nil }
    return String(decoding: peer.id.dropFirst(prefix.utf8.count), as: UTF8.self)
  }

  private var wayOfNodes: ControlPeer.Way { network == nil ? .host : .network }
  private var socketOfNodes: Socket { network ?? socket }

  /// Sends a frame to a node. A node that is not connected misses the frame; its timeouts handle that.
  @discardableResult
  func send(_ header: FrameHeader, to node: String) -> Socket.SendResult {
    socketOfNodes.send(header, body: [], to: Array(WireName.node(node).utf8))
  }

  /// Sends a frame with a body to a node.
  func send(_ header: FrameHeader, body: [UInt8], to node: String) {
    socketOfNodes.send(header, body: body, to: Array(WireName.node(node).utf8))
  }

  /// Sends a frame with a record to a node.
  @discardableResult
  func send(_ header: FrameHeader, _ record: some Encodable, to node: String) -> Socket.SendResult {
    guard let body = try? JSONRecord.encode(record) else { return .unroutable }
    return socketOfNodes.send(header, body: body, to: Array(WireName.node(node).utf8))
  }

  /// Sends a frame to the agent of a node. An agent that is not connected misses the frame, and reports
  /// its state again later.
  func send(_ kind: FrameKind, body: [UInt8] = [], toAgentOf node: String) {
    network?.send(FrameHeader(kind), body: body, to: Array(WireName.agent(ofNode: node).utf8))
  }

  /// Sends a frame with a record to the agent of a node.
  func send(_ kind: FrameKind, _ record: some Encodable, toAgentOf node: String) {
    guard let body = try? JSONRecord.encode(record) else { return }
    send(kind, body: body, toAgentOf: node)
  }

  func answer(_ answer: ControlAnswer, to requester: Requester) {
    guard let body = try? JSONRecord.encode(answer) else { return }
    let replySocket = requester.peer.way == .network ? network : socket
    replySocket?.send(
      FrameHeader(.answer, sequence: requester.id), body: body, to: requester.peer.id)
  }
}

/// An error: the control socket cannot be bound for other hosts.
struct ControlBindingError: Error, CustomStringConvertible {
  let address: String
  /// The port in the deployment file; `nil` if the system chooses it.
  let port: Int?
  let cause: TransportError

  var description: String {
    if let port {
      return
        "the orchestrator cannot listen on port \(port) ('port' in the deployment file): \(cause); "
        + "stop the process that uses the port, or choose another port and export the manifests "
        + "and the keys again"
    }
    return
      "the orchestrator cannot listen on '\(address)' ('address' in the deployment file): "
      + "\(cause); set 'address' to an address of this host, as listed by 'ip address'"
  }
}

/// The sender of a message on a control socket: the socket on which it arrived, and its routing id there.
package struct ControlPeer: Hashable {
  package enum Way: Hashable {
    /// From this host, where only the owner has access to the runtime directory.
    case host
    /// From any host, authenticated by a key.
    case network
  }

  let way: Way
  let id: [UInt8]

  package init(way: Way, id: [UInt8]) {
    self.way = way
    self.id = id
  }
}

/// The sender of a command, and the number of the command in its answer.
package struct Requester: Hashable {
  let peer: ControlPeer
  let id: UInt64

  package init(peer: ControlPeer, id: UInt64) {
    self.peer = peer
    self.id = id
  }
}

/// Clients that are answered when their request has completed.
package struct WaitingClients {
  /// Returns the answer, or `nil` while it is unknown.
  package typealias Condition = (TopologyLifecycle) -> ControlAnswer?

  private var clients: [(requester: Requester, condition: Condition)] = []
  /// The clients that wait for the end of the run. Every client does, and disconnects without a message.
  private var untilEnd: [ControlPeer.Way: [Requester]] = [:]

  /// The maximum number of clients per socket that wait for the end; the oldest are dropped. The
  /// sockets are counted separately: each `send` on this host is a client, and must not displace a
  /// client on another host, which cannot learn of the end in any other way.
  package static let limit = 10_000

  package init() {}

  mutating func append(_ requester: Requester, until condition: @escaping Condition) {
    clients.append((requester, condition))
  }

  package mutating func appendUntilEnd(_ requester: Requester) {
    var requesters = untilEnd.removeValue(forKey: requester.peer.way) ?? []
    if requesters.count >= Self.limit { requesters.removeFirst(Self.limit / 10) }
    requesters.append(requester)
    untilEnd[requester.peer.way] = requesters
  }

  /// Removes and returns the clients whose answers are known now.
  package mutating func takeAnswered(
    by lifecycle: TopologyLifecycle, end: (TopologyLifecycle.Outcome) -> ControlAnswer
  ) -> [(Requester, ControlAnswer)] {
    var answered: [(Requester, ControlAnswer)] = []
    if case .finished(let outcome) = lifecycle.state {
      let answer = end(outcome)
      answered = untilEnd.values.joined().map { ($0, answer) }
      untilEnd = [:]
    }
    clients.removeAll { client in
      guard let answer = client.condition(lifecycle) else { return false }
      answered.append((client.requester, answer))
      return true
    }
    return answered
  }
}
