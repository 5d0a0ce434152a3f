import PipeTransport
import PipeWire

/// The keys with which a client connects to an orchestrator, and to nodes that accept connections
/// from other hosts.
package struct ClientKeys: Sendable {
  private enum Source {
    /// The path of the file with the client's own key pair. The client reads the file when it first
    /// connects to a node that accepts connections from other hosts.
    case file(String)
    /// The keys of a monitor that was started by a topology.
    case monitor(NodeArguments.Keys)
    case remote(RemoteTopology)
  }

  private let source: Source

  /// Creates the keys of a client on the orchestrator's host. The key file does not exist if all
  /// nodes are on this host.
  package init(in directories: RuntimeDirectories) { source = .file(directories.clientKeyFile) }

  /// Creates the keys of a monitor that was started by a topology.
  package init(_ keys: NodeArguments.Keys) { source = .monitor(keys) }

  /// Creates the keys of a client on another host.
  init(_ topology: RemoteTopology) { source = .remote(topology) }

  /// The topology on another host to which the keys belong; `nil` for a client on the
  /// orchestrator's host, and for a monitor.
  var remote: RemoteTopology? {
    if case .remote(let topology) = source { topology } else { nil }
  }

  /// Returns this client's key pair.
  func keyPair() throws -> CurveKeyPair {
    switch source {
    case .file(let path): try KeyFile.read(path)
    case .monitor(let keys): try KeyFile.read(keys.path)
    case .remote(let topology): topology.clientKeyPair
    }
  }

  /// Returns the endpoint of a control socket, with the keys for the connection.
  func peerEndpoint(of control: String) throws -> PeerEndpoint {
    switch source {
    case .file: return PeerEndpoint(control)
    case .remote(let topology): return topology.peerEndpoint
    case .monitor(let keys):
      guard let key = PublicKey(keys.orchestratorKey) else {
        throw TopologyClientError.failed(
          "'\(keys.orchestratorKey)' is not a public key of a control socket")
      }
      return PeerEndpoint(control, key: key, own: try KeyFile.read(keys.path))
    }
  }
}

/// The endpoints and keys of the nodes that accept connections from other hosts, as the
/// orchestrator last reported them.
///
/// Each new process of a node has a new endpoint and a new key. So an inbox or a feed is identified
/// by a name that stays the same.
struct DeployedEndpoints {
  /// An inbox or a feed whose endpoint or key has changed. `formerEndpoint` is its former endpoint;
  /// `nil` if there was none.
  struct Change: Hashable {
    /// See ``NodeInformation/inboxName`` and ``NodeInformation/feedName``.
    let name: String
    let formerEndpoint: String?
  }

  private struct KeyedEndpoint: Hashable {
    var endpoint: String
    var key: PublicKey
  }

  private var keyedEndpoints: [String: KeyedEndpoint] = [:]

  /// Stores the endpoints and keys that a topology directory lists, and returns the changes. If the
  /// topology directory lists no endpoint of a node, the stored endpoint of that node stays.
  mutating func take(_ nodes: [NodeInformation]) -> [Change] {
    var changes: [Change] = []
    for node in nodes where node.process != nil {
      guard let key = node.key.flatMap({ PublicKey($0) }), !node.inbox.isEmpty else { continue }
      for (name, endpoint) in [(node.inboxName, node.inbox), (node.feedName, node.feed)] {
        let peerEndpoint = KeyedEndpoint(endpoint: endpoint, key: key)
        guard keyedEndpoints[name] != peerEndpoint else { continue }
        changes.append(Change(name: name, formerEndpoint: keyedEndpoints[name]?.endpoint))
        keyedEndpoints[name] = peerEndpoint
      }
    }
    return changes
  }

  /// Forgets the endpoint of an inbox or a feed. The endpoint in the next topology directory then
  /// counts as a new endpoint.
  mutating func forget(_ name: String) { keyedEndpoints[name] = nil }

  /// Returns the endpoint and the key of an inbox or a feed; `nil` if they are not known yet.
  func peerEndpoint(of name: String, own: CurveKeyPair) -> PeerEndpoint? {
    keyedEndpoints[name].map { PeerEndpoint($0.endpoint, key: $0.key, own: own) }
  }

  /// Whether the text is the name of an inbox or a feed of a node that accepts connections from
  /// other hosts. Otherwise, the text is an endpoint on this host.
  static func isName(_ name: String) -> Bool { !name.contains("://") }
}
