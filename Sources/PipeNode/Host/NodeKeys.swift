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
  init?(_ arguments: NodeArguments, at environment: NodeEnvironment, log: NodeLog) throws {
    guard let keys = arguments.keys else { return nil }
    guard let control = PublicKey(keys.control) else {
      throw NodeSetupError(
        "'--control-key' is '\(keys.control)', which is not a public key; use the 40 characters of "
          + "'public' in the orchestrator's key file")
    }
    guard let handler = environment.handler else {
      throw NodeSetupError(
        "node '\(arguments.node)' has a key, but its carrier node has none; give keys to both "
          + "nodes, or to neither if all nodes are on one host")
    }
    do {
      pair =
        try keys.path == NodeArguments.Keys.inline
        ? KeyFile.read(inline: environment.key) : KeyFile.read(keys.path)
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
      throw NodeSetupError("\(error); \(Self.advice(error.code))")
    }
    return socket.lastEndpoint ?? endpoint
  }

  private static func advice(_ code: Int32) -> String {
    switch code {
    case EADDRINUSE:
      "another program uses this port; end that program, or write '*' as the port to let the "
        + "system choose a port"
    case EADDRNOTAVAIL, ENODEV:
      "this host does not have this address; check 'places' in the deployment file, and the output "
        + "of 'ip address' on this host"
    case EACCES: "this port is reserved for the system; use a port above 1023, or '*'"
    default: "the endpoint of a node must be like 'tcp://10.0.0.7:*'"
    }
  }
}

/// The additional parts of a node that is bound for other hosts: the endpoints of its sockets, and
/// its peers.
final class NodeNetwork {
  let peers: Peers
  /// The endpoints of the node's sockets; `nil` if they could not be bound.
  private(set) var endpoints: NodeEndpoints?
  /// The reason why the sockets could not be bound.
  private(set) var bindFailure: String?
  private let keys: NodeKeys

  /// A hint at possible causes, for a message that no orchestrator answers.
  static let noAnswerHint =
    "; an orchestrator does not answer if its key differs from '--control-key', or if it does not "
    + "know the key of '--key'"

  init(_ keys: NodeKeys, log: NodeLog) {
    self.keys = keys
    peers = Peers(keys, log: log)
  }

  /// Binds the node's sockets behind its gate.
  func bind(_ inbox: Socket, _ feed: Socket, as arguments: NodeArguments) {
    do {
      endpoints = NodeEndpoints(
        inbox: try keys.bind(inbox, to: arguments.inbox),
        feed: try keys.bind(feed, to: arguments.feed))
    } catch {
      bindFailure = "\(error)"
    }
  }
}
