import Glibc
import PipeTransport
import PipeWire

/// The keys of a node that is bound for other hosts, and the gate of its sockets.
struct NodeKeys {
  let pair: CurveKeyPair
  /// The public key of the orchestrator.
  let control: PublicKey
  let gate: PeerGate

  /// Reads the node's key pair.
  /// - Returns: `nil` for a node that is on one host with all others.
  /// - Throws: ``NodeSetupError``, also if the node is embedded and its carrier node has no key.
  init?(_ arguments: NodeArguments, at place: NodeSurroundings, log: NodeLog) throws {
    guard let keys = arguments.keys else { return nil }
    guard let control = PublicKey(keys.control) else {
      throw NodeSetupError(
        "'--control-key' is '\(keys.control)', which is no public key: it has 40 characters, and is the "
          + "'public' of the orchestrator's key file")
    }
    guard let handler = place.handler else {
      throw NodeSetupError(
        "'\(arguments.node)' has a key, and the node in whose process it is to live has none: both are "
          + "to be on one host with all others, or neither")
    }
    do {
      pair =
        try keys.path == NodeArguments.Keys.handed
        ? KeyFile.read(handed: place.key) : KeyFile.read(keys.path)
    } catch {
      throw NodeSetupError("\(error)")
    }
    self.control = control
    gate = handler.makeGate(arguments.node) { log.warning("\($0)") }
  }

  /// Binds a socket of the node behind its gate.
  /// - Returns: The bound endpoint, with the port.
  func bind(_ socket: Socket, to endpoint: String) throws -> String {
    do {
      try gate.secure(socket, as: pair)
      try socket.bind(NetworkEndpoint.resolved(endpoint))
    } catch {
      throw NodeSetupError("\(error). \(Self.advice(error.code))")
    }
    return socket.lastEndpoint ?? endpoint
  }

  private static func advice(_ code: Int32) -> String {
    switch code {
    case EADDRINUSE:
      "Another program has that port: end it, or let the system choose one, with '*' for the port"
    case EADDRNOTAVAIL, ENODEV:
      "This machine does not have that address: look at 'places' in the deployment file, and at "
        + "'ip address' here"
    case EACCES: "That port is one for the system alone: take one above 1023, or '*'"
    default: "A node is bound to an endpoint like 'tcp://10.0.0.7:*'"
    }
  }
}

/// The additional parts of a node that is bound for other hosts: the endpoints of its sockets, and
/// its peers.
final class NodeOffHost {
  let neighbours: Peers
  /// The endpoints of the node's sockets; `nil` if they could not be bound.
  private(set) var endpoints: NodeEndpoints?
  /// The reason why the sockets could not be bound.
  private(set) var obstacle: String?
  private let keys: NodeKeys

  /// A hint at possible causes, for a message that no orchestrator answers.
  static let reasonsForSilence =
    ". One that has another key than '--control-key' says, or that does not know the one of '--key', does not"

  init(_ keys: NodeKeys, log: NodeLog) {
    self.keys = keys
    neighbours = Peers(keys, log: log)
  }

  /// Binds the node's sockets behind its gate.
  func bind(_ inbox: Socket, _ feed: Socket, as arguments: NodeArguments) {
    do {
      endpoints = NodeEndpoints(
        inbox: try keys.bind(inbox, to: arguments.inbox),
        feed: try keys.bind(feed, to: arguments.feed))
    } catch {
      obstacle = "\(error)"
    }
  }
}
