import PipeTransport
import PipeWire

/// By which keys a client reaches an orchestrator, and nodes that are bound for other hosts.
package struct ClientKeys: Sendable {
  private enum Source {
    /// The path of the file with its own pair; read where the first such node is to be reached.
    case file(String)
    /// Those of a monitor that a topology has started.
    case monitor(NodeArguments.Keys)
    case remote(RemoteTopology)
  }

  private let source: Source

  /// Those of a client on the orchestrator's host: there is no file where all nodes are on it.
  package init(in directories: RuntimeDirectories) { source = .file(directories.clientKey) }

  /// Those of a monitor that a topology has started.
  package init(_ keys: NodeArguments.Keys) { source = .monitor(keys) }

  /// Those of a client on another host.
  init(_ topology: RemoteTopology) { source = .remote(topology) }

  /// The topology of another host that they are for.
  var remote: RemoteTopology? {
    if case .remote(let topology) = source { topology } else { nil }
  }

  /// The pair of this client.
  func pair() throws -> CurveKeyPair {
    switch source {
    case .file(let path): try KeyFile.read(path)
    case .monitor(let keys): try KeyFile.read(keys.path)
    case .remote(let topology): topology.pair
    }
  }

  /// Where a control socket is.
  func place(of control: String) throws -> PeerPlace {
    switch source {
    case .file: return PeerPlace(control)
    case .remote(let topology): return topology.place
    case .monitor(let keys):
      guard let key = PublicKey(keys.control) else {
        throw TopologyClientError.failed("'\(keys.control)' is no public key of a control socket")
      }
      return PeerPlace(control, key: key, own: try KeyFile.read(keys.path))
    }
  }
}

/// Where the nodes of a topology are that are bound for other hosts, as the orchestrator has told last.
///
/// Each process of a node has another endpoint and another key; what is asked for is the name that stays.
struct DeployedPlaces {
  /// An endpoint that has changed.
  struct Change: Hashable {
    /// See ``NodeInformation/inboxName`` and ``NodeInformation/feedName``.
    let name: String
    let former: String?
  }

  private struct Place: Hashable {
    var endpoint: String
    var key: PublicKey
  }

  private var places: [String: Place] = [:]

  /// Takes what a directory tells. A node that is not there has the place where it was.
  mutating func take(_ nodes: [NodeInformation]) -> [Change] {
    var changes: [Change] = []
    for node in nodes where node.process != nil {
      guard let key = node.key.flatMap({ PublicKey($0) }), !node.inbox.isEmpty else { continue }
      for (name, endpoint) in [(node.inboxName, node.inbox), (node.feedName, node.feed)] {
        let place = Place(endpoint: endpoint, key: key)
        guard places[name] != place else { continue }
        changes.append(Change(name: name, former: places[name]?.endpoint))
        places[name] = place
      }
    }
    return changes
  }

  /// The place of an inbox or a feed; `nil` where it is not known yet.
  func place(of name: String, own: CurveKeyPair) -> PeerPlace? {
    places[name].map { PeerPlace($0.endpoint, key: $0.key, own: own) }
  }

  /// Whether it is the name of one that is bound for other hosts, and no endpoint on this one.
  static func isName(_ name: String) -> Bool { !name.contains("://") }
}
