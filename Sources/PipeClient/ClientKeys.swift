import PipeTransport
import PipeWire

/// By which keys a client reaches nodes that are bound for other hosts.
package struct ClientKeys: Sendable {
  /// The path of the file with its own pair; read where the first such node is to be reached.
  let path: String
  /// The public key of the control socket; `nil` where that is reached on this host.
  let control: String?

  /// Those of a client on the orchestrator's host: there is no file where all nodes are on it.
  package init(in directories: RuntimeDirectories) {
    path = directories.clientKey
    control = nil
  }

  /// Those of a monitor that a topology has started.
  package init(_ keys: NodeArguments.Keys) {
    path = keys.path
    control = keys.control
  }

  /// Where a control socket is.
  func place(of control: String) throws -> PeerPlace {
    guard let text = self.control else { return PeerPlace(control) }
    guard let key = PublicKey(text) else {
      throw TopologyClientError.failed("'\(text)' is no public key of a control socket")
    }
    return PeerPlace(control, key: key, own: try KeyFile.read(path))
  }
}
