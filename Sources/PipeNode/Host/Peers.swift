import PipeMachines
import PipeTransport
import PipeWire

/// An object that connects to peers, which may be on other hosts, and to their successors.
protocol PeerConnector: AnyObject {
  /// Disconnects from the process of this name, which is gone or is no longer a peer.
  func disconnectPeer(from peer: String, at endpoints: PeerEndpoints)
  /// Connects to the process of this name.
  func connectPeer(_ peer: String, at endpoints: PeerEndpoints)
}

/// The endpoints of a peer's inbox and feed, with the keys to reach them.
struct PeerEndpoints {
  let inbox: PeerEndpoint
  let feed: PeerEndpoint
}

/// The peers of a node that is bound for other hosts. The orchestrator sends the list of peers;
/// this object updates the connections to them, and the gate.
final class Peers {
  private struct Listener {
    weak var listener: (any PeerConnector)?
  }

  private let keys: NodeKeys
  private let log: NodeLog
  private var knownPeers = KnownPeers()
  private var endpoints: [String: PeerEndpoints] = [:]
  private var listeners: [Listener] = []

  init(_ keys: NodeKeys, log: NodeLog) {
    self.keys = keys
    self.log = log
  }

  /// The lower 32 bits of the number of the last list; 0 before the first list.
  var number: UInt32 { UInt32(truncatingIfNeeded: knownPeers.number ?? 0) }

  /// Returns the endpoints of a peer; `nil` while there is none.
  func endpoints(of peer: String) -> PeerEndpoints? { endpoints[peer] }

  /// Notifies the listener of changes, for as long as it exists.
  func addListener(_ listener: any PeerConnector) {
    listeners.removeAll { $0.listener == nil }
    listeners.append(Listener(listener: listener))
  }

  /// Notes that another orchestrator has connected, which numbers its lists from the start.
  func resetForNewOrchestrator() { knownPeers.resetNumber() }

  /// Applies the body of a `peers` frame; an old list is ignored.
  func take(_ body: UnsafeRawBufferPointer, number: UInt64) throws {
    let list = try JSONRecord.decode(PeerList.self, from: body)
    // A list with an invalid key is rejected as a whole.
    let hasValidKeys = (list.peers.map(\.key) + list.clients).allSatisfy { PublicKey($0) != nil }
    guard hasValidKeys else { throw FrameError.body(.peers) }
    if let change = knownPeers.take(list, number: number) { perform(change) }
  }

  /// Applies departures before arrivals: a new process may have the endpoint of an old one.
  private func perform(_ change: KnownPeers.Change) {
    for peer in change.departed {
      guard let endpoints = endpoints.removeValue(forKey: peer.name) else { continue }
      for entry in listeners { entry.listener?.disconnectPeer(from: peer.name, at: endpoints) }
    }
    for key in change.revoked.compactMap(PublicKey.init) { keys.gate.revoke(key) }
    for peer in change.admitted { allow(peer) }
    for key in change.clients.compactMap(PublicKey.init) { keys.gate.allow(key, as: .clientNames) }
    for peer in change.arrived {
      guard let endpoints = endpoints(at: peer) else { continue }
      self.endpoints[peer.name] = endpoints
      for entry in listeners { entry.listener?.connectPeer(peer.name, at: endpoints) }
    }
  }

  private func allow(_ peer: PeerList.Peer) {
    guard let key = PublicKey(peer.key) else { return }
    let names = Set(peer.names.map { Array($0.utf8) })
    if keys.gate.allow(key, as: .only(names)) { return }
    log.warning(
      "node '\(peer.name)' is rejected: its key '\(key)' was revoked before; restart the node with "
        + "its own key pair")
  }

  private func endpoints(at peer: PeerList.Peer) -> PeerEndpoints? {
    guard let key = PublicKey(peer.key) else { return nil }
    return PeerEndpoints(
      inbox: PeerEndpoint(peer.endpoints.inbox, key: key, own: keys.pair),
      feed: PeerEndpoint(peer.endpoints.feed, key: key, own: keys.pair))
  }
}

/// The peers that a node knows of, as a value.
package struct KnownPeers: Sendable {
  package typealias Peer = PeerList.Peer

  /// The differences from the list before; each list is in the order of names.
  package struct Change: Hashable, Sendable {
    /// The peers to disconnect from: they are gone, or are other processes now.
    package var departed: [Peer] = []
    /// The keys that are no longer admitted.
    package var revoked: [String] = []
    /// The peers whose keys are newly admitted, or admitted under other names.
    package var admitted: [Peer] = []
    /// The keys of clients that are newly admitted.
    package var clients: [String] = []
    /// The peers to connect to.
    package var arrived: [Peer] = []

    package init() {}
  }

  /// The number of the last list; `nil` before the first list of an orchestrator.
  package private(set) var number: UInt64?
  private var peers: [String: Peer] = [:]
  private var clients: Set<String> = []

  package init() {}

  /// Replaces the list of peers.
  /// - Parameter number: The number of the list. A list is old if its number is not above the last
  ///   one.
  /// - Returns: The changes to apply; `nil` if the list is old.
  package mutating func take(_ list: PeerList, number: UInt64) -> Change? {
    if let last = self.number, number <= last { return nil }
    self.number = number
    let (formerPeers, formerClients) = (peers, clients)
    peers = Dictionary(list.peers.map { ($0.name, $0) }) {
      $0.incarnation > $1.incarnation ? $0 : $1
    }
    clients = Set(list.clients)
    return change(from: formerPeers, formerClients)
  }

  /// Notes that another orchestrator has connected, which numbers its lists from the start.
  package mutating func resetNumber() { number = nil }

  private func change(from formerPeers: [String: Peer], _ formerClients: Set<String>) -> Change {
    var change = Change()
    for (name, peer) in formerPeers.sorted(by: { $0.key < $1.key }) {
      if let now = peers[name], now.isSameProcess(as: peer) { continue }
      change.departed.append(peer)
    }
    for (name, peer) in peers.sorted(by: { $0.key < $1.key }) {
      let former = formerPeers[name]
      if former?.key != peer.key || former?.names != peer.names { change.admitted.append(peer) }
      if former?.isSameProcess(as: peer) != true { change.arrived.append(peer) }
    }
    let admittedKeys = clients.union(peers.values.map(\.key))
    let former = formerClients.union(formerPeers.values.map(\.key))
    change.revoked = former.subtracting(admittedKeys).sorted()
    change.clients = clients.subtracting(formerClients).sorted()
    return change
  }
}

extension PeerList.Peer {
  /// Whether the peer is the same process, at the same endpoints.
  fileprivate func isSameProcess(as other: Self) -> Bool {
    incarnation == other.incarnation && key == other.key && endpoints == other.endpoints
  }
}

/// A node in the same process, as another node there reaches it: over `inproc`, without a thread
/// between them.
struct LocalPeer {
  let name: String
  /// The context of its `inproc` endpoints, which do not exist outside it.
  let context: Context
  let inbox = "inproc://inbox"
  let feed = "inproc://feed"
}

/// The surroundings of a node's shell: everything that it shares with the other nodes of its
/// process.
struct NodeEnvironment {
  let loop: PollLoop
  let context: Context
  /// Answers for all gates in the context; `nil` if all processes are on one host.
  let handler: ZapHandler?
  /// The carrier node; `nil` if the node has its own process.
  var carrier: LocalPeer?
  /// The content of an embedded node's key file, which may be on another host; `nil` without one.
  var key: String?

  /// The number of peer sockets that fit into the shared context. Further sockets need their own
  /// context.
  var peerSocketCapacity: Int { Int(Context.SocketLimit.few.rawValue) / (carrier == nil ? 2 : 4) }
}
