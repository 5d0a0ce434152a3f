import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// The sockets on which nodes report, and clients ask: one for this host, and for a deployed topology a second one.
final class ControlSocket {
  let socket: Socket
  /// Bound for other hosts, where nodes are then to come from; `nil` where all are on this one.
  private(set) var network: Socket?
  private let context: Context
  /// Messages that were passed over.
  private var garbage: UInt64 = 0

  init(at endpoint: String, in context: Context) throws(TransportError) {
    self.context = context
    socket = try Socket(.router, in: context)
    try socket.setHighWaterMark(0)
    try socket.setMaximumMessage(byteCount: WireLimits.messageByteCount)
    try socket.bind(endpoint)
  }

  /// Lets nodes come from other hosts, and clients as well.
  /// - Parameters:
  ///   - number: The port; `nil` for one that the system chooses.
  ///   - port: One that was taken before.
  /// - Returns: The endpoint, with the port.
  func bindForOthers(
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

  /// Reads all that has come.
  /// - Parameters:
  ///   - take: Takes a frame; throws where it makes no sense.
  ///   - warn: Called with what was passed over, ever less often.
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
        garbage += 1
        if garbage.isWorthLogging {
          warn("passed over \(error) on the control socket (\(garbage) so far)")
        }
      }
    }) {}
  }

  /// The node that has this routing id, where it is one of a node.
  func node(of peer: ControlPeer) -> String? { name(of: peer, after: WireName.node("")) }

  /// The node whose agent has this routing id, where it is one of an agent.
  func nodeOfAgent(_ peer: ControlPeer) -> String? {
    name(of: peer, after: WireName.agent(ofNode: ""))
  }

  private func name(of peer: ControlPeer, after prefix: String) -> String? {
    guard peer.way == wayOfNodes, peer.id.starts(with: prefix.utf8) else { return nil }
    return String(decoding: peer.id.dropFirst(prefix.utf8.count), as: UTF8.self)
  }

  private var wayOfNodes: ControlPeer.Way { network == nil ? .host : .network }
  private var socketOfNodes: Socket { network ?? socket }

  /// Sends a frame to a node; one that is not connected misses it, and its timeouts see to that.
  @discardableResult
  func send(_ header: FrameHeader, to node: String) -> Socket.Sent {
    socketOfNodes.send(header, body: [], to: Array(WireName.node(node).utf8))
  }

  /// Sends a frame with a body to a node.
  func send(_ header: FrameHeader, body: [UInt8], to node: String) {
    socketOfNodes.send(header, body: body, to: Array(WireName.node(node).utf8))
  }

  /// Sends a frame with a record to a node.
  @discardableResult
  func send(_ header: FrameHeader, _ record: some Encodable, to node: String) -> Socket.Sent {
    guard let body = try? JSONRecord.encode(record) else { return .unroutable }
    return socketOfNodes.send(header, body: body, to: Array(WireName.node(node).utf8))
  }

  /// Sends a frame to the agent of a node; one that is not connected misses it, and says again where it stands.
  func send(_ kind: FrameKind, body: [UInt8] = [], toAgentOf node: String) {
    network?.send(FrameHeader(kind), body: body, to: Array(WireName.agent(ofNode: node).utf8))
  }

  /// Sends a frame with a record to the agent of a node.
  func send(_ kind: FrameKind, _ record: some Encodable, toAgentOf node: String) {
    guard let body = try? JSONRecord.encode(record) else { return }
    send(kind, body: body, toAgentOf: node)
  }

  func answer(_ answer: ControlAnswer, to asker: Asker) {
    guard let body = try? JSONRecord.encode(answer) else { return }
    let asked = asker.peer.way == .network ? network : socket
    asked?.send(FrameHeader(.answer, sequence: asker.id), body: body, to: asker.peer.id)
  }
}

/// The control socket cannot be bound for other hosts.
struct ControlBindingError: Error, CustomStringConvertible {
  let address: String
  /// The one that the deployment file names; `nil` where the system was to choose.
  let port: Int?
  let cause: TransportError

  var description: String {
    if let port {
      return
        "the orchestrator cannot listen at port \(port), the 'port' of the deployment file: \(cause). End what has it, "
        + "or name another one and export the manifests and the keys anew"
    }
    return
      "the orchestrator cannot listen at \(address), the 'address' of the deployment file: \(cause). Write one that "
      + "this machine has: 'ip address' tells them"
  }
}

/// The sender of a message on a control socket: by which of the two sockets it came, and its routing id there.
package struct ControlPeer: Hashable {
  package enum Way: Hashable {
    /// From this host, where the runtime directory lets in its owner alone.
    case host
    /// From any, with a key.
    case network
  }

  let way: Way
  let id: [UInt8]

  package init(way: Way, id: [UInt8]) {
    self.way = way
    self.id = id
  }
}

/// The sender of a command, and the number under which it waits for the answer.
package struct Asker: Hashable {
  let peer: ControlPeer
  let id: UInt64

  package init(peer: ControlPeer, id: UInt64) {
    self.peer = peer
    self.id = id
  }
}

/// Clients that are answered when what they asked for has come about.
package struct WaitingClients {
  /// The answer, or `nil` while it is not known.
  package typealias Condition = (TopologyLifecycle) -> ControlAnswer?

  private var clients: [(asker: Asker, condition: Condition)] = []
  /// Those that wait for the end of the run. Each client does, and leaves without a message.
  private var untilEnd: [ControlPeer.Way: [Asker]] = [:]

  /// The most that wait for the end by either socket; the oldest are forgotten. By each socket for itself: each `send`
  /// on this host is a client, and must not displace one of another host, which has no other way to learn of the end.
  package static let limit = 10_000

  package init() {}

  mutating func append(_ asker: Asker, until condition: @escaping Condition) {
    clients.append((asker, condition))
  }

  package mutating func appendUntilEnd(_ asker: Asker) {
    var askers = untilEnd.removeValue(forKey: asker.peer.way) ?? []
    if askers.count >= Self.limit { askers.removeFirst(Self.limit / 10) }
    askers.append(asker)
    untilEnd[asker.peer.way] = askers
  }

  /// Takes out those whose answer is known now.
  package mutating func takeAnswered(
    by lifecycle: TopologyLifecycle, end: (TopologyLifecycle.Outcome) -> ControlAnswer
  ) -> [(Asker, ControlAnswer)] {
    var answered: [(Asker, ControlAnswer)] = []
    if case .finished(let outcome) = lifecycle.state {
      let answer = end(outcome)
      answered = untilEnd.values.joined().map { ($0, answer) }
      untilEnd = [:]
    }
    clients.removeAll { client in
      guard let answer = client.condition(lifecycle) else { return false }
      answered.append((client.asker, answer))
      return true
    }
    return answered
  }
}
