import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// The sockets that receive reports of nodes and commands of clients: a socket for this host and,
/// in a deployed topology, a second socket for other hosts.
final class ControlSocket {
  let socket: Socket
  /// The socket for other hosts, which all nodes use if it exists; `nil` if all nodes are on this
  /// host.
  private(set) var network: Socket?
  private let context: Context
  /// The number of invalid messages that were ignored.
  private var invalidMessageCount: UInt64 = 0

  init(at endpoint: String, in context: Context) throws(TransportError) {
    self.context = context
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.setMaximumMessage(byteCount: WireLimits.maximumMessageByteCount)
    try socket.bind(endpoint)
  }

  /// Binds a second socket for nodes and clients on other hosts.
  /// - Parameters:
  ///   - number: The number of the port in the deployment file; `nil` lets the system choose a
  ///     port.
  ///   - port: A port that was reserved before, to be bound instead of `number`.
  /// - Returns: The endpoint, including the port.
  func bindToNetwork(
    at address: String, _ number: Int? = nil, _ port: ReservedPort? = nil, as pair: CurveKeyPair,
    behind gate: PeerGate
  ) throws -> String {
    let network = try Socket(.router, in: context)
    try network.setHighWaterMark(0)
    try network.setMaximumMessage(byteCount: WireLimits.maximumMessageByteCount)
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
  ///   - warn: Called with a text about an ignored frame. To limit the number of warnings, `warn`
  ///     is called only for the first three ignored frames, and then for the frames number 4, 8,
  ///     16, and so on.
  func read(
    _ take: (FrameHeader, [UInt8], ControlPeer) throws -> Void, warn: (String) -> Void
  ) {
    if let network { read(network, .network, take, warn) }
    read(socket, .host, take, warn)
  }

  private func read(
    _ socket: Socket, _ transport: ControlPeer.Transport,
    _ take: (FrameHeader, [UInt8], ControlPeer) throws -> Void, _ warn: (String) -> Void
  ) {
    while socket.receive({ peer, bytes in
      do {
        try take(
          FrameHeader(bytes), Array(bytes[FrameHeader.byteCount...]),
          ControlPeer(transport: transport, id: peer))
      } catch {
        invalidMessageCount += 1
        if invalidMessageCount.isWorthLogging {
          warn("ignored \(error) on the control socket (\(invalidMessageCount) so far)")
        }
      }
    }) {}
  }

  /// Returns the node that the peer's routing id names; `nil` if the peer is not a node.
  func node(of peer: ControlPeer) -> String? { name(of: peer, after: WireName.node("")) }

  /// Returns the node whose agent the peer's routing id names; `nil` if the peer is not an agent.
  func nodeOfAgent(_ peer: ControlPeer) -> String? {
    name(of: peer, after: WireName.agent(ofNode: ""))
  }

  private func name(of peer: ControlPeer, after prefix: String) -> String? {
    guard peer.transport == transportOfNodes, peer.id.starts(with: prefix.utf8) else { return nil }
    return String(decoding: peer.id.dropFirst(prefix.utf8.count), as: UTF8.self)
  }

  private var transportOfNodes: ControlPeer.Transport { network == nil ? .host : .network }
  private var socketOfNodes: Socket { network ?? socket }

  /// Sends a frame to a node. If the node is not connected, the frame is lost; timeouts of the
  /// node's lifecycle handle the loss.
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

  /// Sends a frame to the agent of a node. If the agent is not connected, the frame is lost. The
  /// agent reports its state again later.
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
    let replySocket = requester.peer.transport == .network ? network : socket
    replySocket?.send(
      FrameHeader(.answer, sequence: requester.id), body: body, to: requester.peer.id)
  }
}

/// The error that the control socket for other hosts cannot be bound.
struct ControlBindingError: Error, CustomStringConvertible {
  let address: String
  /// The port in the deployment file; `nil` if the system chooses the port.
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

/// The sender of a message on a control socket: the socket on which the message arrived, and the
/// sender's routing id on this socket.
package struct ControlPeer: Hashable {
  package enum Transport: Hashable {
    /// The message comes from this host, where only the owner can access the runtime directory.
    case host
    /// The message may come from any host. A key authenticates the sender.
    case network
  }

  let transport: Transport
  let id: [UInt8]

  package init(transport: Transport, id: [UInt8]) {
    self.transport = transport
    self.id = id
  }
}

/// The sender of a command, and the number that identifies the command in the answer.
package struct Requester: Hashable {
  let peer: ControlPeer
  let id: UInt64

  package init(peer: ControlPeer, id: UInt64) {
    self.peer = peer
    self.id = id
  }
}

/// The clients that wait for the answers to their requests.
package struct WaitingClients {
  /// Returns the answer to a client's request; `nil` while the answer is not known.
  package typealias Condition = (TopologyLifecycle) -> ControlAnswer?

  private var clients: [(requester: Requester, condition: Condition)] = []
  /// The requests for a notification when the run ends. Every client sends such a request, and may
  /// disconnect without a message.
  private var requestersAwaitingEnd: [ControlPeer.Transport: [Requester]] = [:]

  /// The maximum number of requests in `requestersAwaitingEnd` for each socket. Beyond this number,
  /// the oldest requests are dropped. The sockets are counted separately, because each `send`
  /// command on this host is a client, and must not displace a client on another host. For a client
  /// on another host, only the answer shows that the run has ended.
  package static let maximumRequestCount = 10_000

  package init() {}

  mutating func append(_ requester: Requester, until condition: @escaping Condition) {
    clients.append((requester, condition))
  }

  package mutating func appendUntilEnd(_ requester: Requester) {
    var requesters = requestersAwaitingEnd.removeValue(forKey: requester.peer.transport) ?? []
    if requesters.count >= Self.maximumRequestCount {
      requesters.removeFirst(Self.maximumRequestCount / 10)
    }
    requesters.append(requester)
    requestersAwaitingEnd[requester.peer.transport] = requesters
  }

  /// Removes and returns the clients whose answers are known now, with the answers.
  /// - Parameter end: Returns the answer for clients that wait for the end of the run.
  package mutating func takeAnswered(
    by lifecycle: TopologyLifecycle, end: (TopologyLifecycle.Outcome) -> ControlAnswer
  ) -> [(Requester, ControlAnswer)] {
    var answeredRequests: [(Requester, ControlAnswer)] = []
    if case .finished(let outcome) = lifecycle.state {
      let answer = end(outcome)
      answeredRequests = requestersAwaitingEnd.values.joined().map { ($0, answer) }
      requestersAwaitingEnd = [:]
    }
    clients.removeAll { client in
      guard let answer = client.condition(lifecycle) else { return false }
      answeredRequests.append((client.requester, answer))
      return true
    }
    return answeredRequests
  }
}
