import PipeTransport
import PipeWire

/// What a node is beside all else that is bound for other hosts: where its sockets are, and with whom it talks.
final class NodeOffHost {
  let neighbours: Neighbours
  /// Where its sockets are; `nil` where they could not be bound.
  private(set) var endpoints: NodeEndpoints?
  /// Why they could not be bound.
  private(set) var obstacle: String?
  private let keys: NodeKeys

  /// What may be behind it where no orchestrator answers.
  static let reasonsForSilence =
    ". One that has another key than '--control-key' says, or that does not know the one of '--key', does not"

  init(_ keys: NodeKeys, log: NodeLog) {
    self.keys = keys
    neighbours = Neighbours(keys, log: log)
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
