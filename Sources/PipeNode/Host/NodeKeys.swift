import Glibc
import PipeTransport
import PipeWire

/// The keys of a node to which other hosts can connect, and the gate that admits peers to the
/// node's sockets.
struct NodeKeys {
  let keyPair: CurveKeyPair
  /// The public key of the orchestrator.
  let controlKey: PublicKey
  let gate: PeerGate

  /// Reads the node's key pair.
  /// - Returns: `nil` if all nodes are on one host.
  /// - Throws: ``NodeSetupError``, also if the node is embedded and its carrier node has no key.
  init?(_ arguments: NodeArguments, at environment: NodeEnvironment, log: NodeLog) throws {
    guard let keys = arguments.keys else { return nil }
    guard let control = PublicKey(keys.orchestratorKey) else {
      throw NodeSetupError(
        "'--control-key' is '\(keys.orchestratorKey)', which is not a public key; use the 40 characters of "
          + "'public' in the orchestrator's key file")
    }
    guard let handler = environment.zapHandler else {
      throw NodeSetupError(
        "node '\(arguments.node)' has a key, but its carrier node has none; give keys to both "
          + "nodes, or to neither if all nodes are on one host")
    }
    do {
      keyPair =
        try keys.path == NodeArguments.Keys.inlinePath
        ? KeyFile.read(inline: environment.keyFileContents) : KeyFile.read(keys.path)
    } catch {
      throw NodeSetupError("\(error)")
    }
    self.controlKey = control
    gate = handler.makeGate(arguments.node) { log.warning("\($0)") }
  }

  /// Binds a socket of the node, and lets the gate admit its peers.
  /// - Returns: The bound endpoint, with the port that the system has chosen.
  func bind(_ socket: Socket, to endpoint: String) throws -> String {
    do {
      try gate.secure(socket, as: keyPair)
      try socket.bind(NetworkEndpoint.resolvedEndpoint(endpoint))
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

/// The additional parts of a node that other hosts can connect to: the endpoints of its sockets,
/// and its peers.
final class NodeNetwork {
  let peers: Peers
  /// The endpoints of the node's sockets; `nil` if the sockets are not bound.
  private(set) var endpoints: NodeEndpoints?
  /// The reason why the sockets could not be bound; `nil` if there was no error.
  private(set) var bindFailure: String?
  private let keys: NodeKeys

  /// The possible reasons to append to the message that no orchestrator answered.
  static let noAnswerHint =
    "; an orchestrator does not answer if its key differs from '--control-key', or if it does not "
    + "know the key of '--key'"

  init(_ keys: NodeKeys, log: NodeLog) {
    self.keys = keys
    peers = Peers(keys, log: log)
  }

  /// Binds the node's sockets, and lets the gate admit their peers.
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
