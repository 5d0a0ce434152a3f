import PipeTransport
import PipeWire

/// The keys by which a client reaches an orchestrator, and nodes that are bound for other hosts.
package struct ClientKeys: Sendable {
  private enum Source {
    /// The path of the file with the client's own pair. It is read when such a node is first reached.
    case file(String)
    /// The keys of a monitor that a topology has started.
    case monitor(NodeArguments.Keys)
    case remote(RemoteTopology)
  }

  private let source: Source

  /// Creates the keys of a client on the orchestrator's host. There is no key file if all nodes are
  /// on that host.
  package init(in directories: RuntimeDirectories) { source = .file(directories.clientKey) }

  /// Creates the keys of a monitor that a topology has started.
  package init(_ keys: NodeArguments.Keys) { source = .monitor(keys) }

  /// Creates the keys of a client on another host.
  init(_ topology: RemoteTopology) { source = .remote(topology) }

  /// The topology on another host that the keys are for.
  var remote: RemoteTopology? {
    if case .remote(let topology) = source { topology } else { nil }
  }

  /// Returns this client's pair.
  func pair() throws -> CurveKeyPair {
    switch source {
    case .file(let path): try KeyFile.read(path)
    case .monitor(let keys): try KeyFile.read(keys.path)
    case .remote(let topology): topology.pair
    }
  }

  /// Returns the endpoint of a control socket, with the keys for it.
  func peerEndpoint(of control: String) throws -> PeerEndpoint {
    switch source {
    case .file: return PeerEndpoint(control)
    case .remote(let topology): return topology.peerEndpoint
    case .monitor(let keys):
      guard let key = PublicKey(keys.control) else {
        throw TopologyClientError.failed(
          "'\(keys.control)' is not a public key of a control socket")
      }
      return PeerEndpoint(control, key: key, own: try KeyFile.read(keys.path))
    }
  }
}

/// The endpoints and keys of the nodes that are bound for other hosts, as the orchestrator last
/// reported them.
///
/// Each process of a node has another endpoint and another key. A lookup uses a name that stays the same.
struct DeployedEndpoints {
  /// An inbox or a feed whose place has changed.
  struct Change: Hashable {
    /// See ``NodeInformation/inboxName`` and ``NodeInformation/feedName``.
    let name: String
    let former: String?
  }

  private struct KeyedEndpoint: Hashable {
    var endpoint: String
    var key: PublicKey
  }

  private var keyedEndpoints: [String: KeyedEndpoint] = [:]

  /// Applies a directory. Returns the changes. A node without an endpoint keeps its former place.
  mutating func take(_ nodes: [NodeInformation]) -> [Change] {
    var changes: [Change] = []
    for node in nodes where node.process != nil {
      guard let key = node.key.flatMap({ PublicKey($0) }), !node.inbox.isEmpty else { continue }
      for (name, endpoint) in [(node.inboxName, node.inbox), (node.feedName, node.feed)] {
        let peerEndpoint = KeyedEndpoint(endpoint: endpoint, key: key)
        guard keyedEndpoints[name] != peerEndpoint else { continue }
        changes.append(Change(name: name, former: keyedEndpoints[name]?.endpoint))
        keyedEndpoints[name] = peerEndpoint
      }
    }
    return changes
  }

  /// Returns the place of an inbox or a feed; `nil` if it is not known yet.
  func peerEndpoint(of name: String, own: CurveKeyPair) -> PeerEndpoint? {
    keyedEndpoints[name].map { PeerEndpoint($0.endpoint, key: $0.key, own: own) }
  }

  /// Whether this is the name of an inbox or a feed bound for other hosts, and not an endpoint on
  /// this host.
  static func isName(_ name: String) -> Bool { !name.contains("://") }
}
