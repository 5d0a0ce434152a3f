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
