import PipeWire

/// With whom a node talks, as far as it was told; as a value.
package struct KnownNeighbours: Sendable {
  package typealias Peer = Neighbourhood.Peer

  /// What is otherwise than before; each list in the order of names.
  package struct Change: Hashable, Sendable {
    /// Those to part from: they are gone, or are other processes now.
    package var parted: [Peer] = []
    /// The keys that are turned away from now on.
    package var revoked: [String] = []
    /// Those whose keys are let in, or are now under other names.
    package var allowed: [Peer] = []
    /// The keys of clients that are let in.
    package var clients: [String] = []
    /// Those to connect to.
    package var met: [Peer] = []

    package init() {}
  }

  /// Of the last list that was taken; `nil` before the first one of an orchestrator.
  package private(set) var number: UInt64?
  private var peers: [String: Peer] = [:]
  private var clients: Set<String> = []

  package init() {}

  /// Takes a list in the place of the one before.
  /// - Parameter number: The list's; one that is not above the last is an old list.
  /// - Returns: What to do; `nil` where the list is an old one.
  package mutating func take(_ told: Neighbourhood, number: UInt64) -> Change? {
    if let last = self.number, number <= last { return nil }
    self.number = number
    let (before, formerClients) = (peers, clients)
    peers = Dictionary(told.peers.map { ($0.name, $0) }) {
      $0.incarnation > $1.incarnation ? $0 : $1
    }
    clients = Set(told.clients)
    return change(from: before, formerClients)
  }

  /// Another orchestrator has come, which counts its lists anew.
  package mutating func forgetNumber() { number = nil }

  private func change(from before: [String: Peer], _ formerClients: Set<String>) -> Change {
    var change = Change()
    for (name, peer) in before.sorted(by: { $0.key < $1.key }) {
      if let now = peers[name], now.isSameProcess(as: peer) { continue }
      change.parted.append(peer)
    }
    for (name, peer) in peers.sorted(by: { $0.key < $1.key }) {
      let former = before[name]
      if former?.key != peer.key || former?.names != peer.names { change.allowed.append(peer) }
      if former?.isSameProcess(as: peer) != true { change.met.append(peer) }
    }
    let kept = clients.union(peers.values.map(\.key))
    let former = formerClients.union(before.values.map(\.key))
    change.revoked = former.subtracting(kept).sorted()
    change.clients = clients.subtracting(formerClients).sorted()
    return change
  }
}

extension Neighbourhood.Peer {
  /// Whether it is the same process, and as it was reached before.
  fileprivate func isSameProcess(as other: Self) -> Bool {
    incarnation == other.incarnation && key == other.key && endpoints == other.endpoints
  }
}
