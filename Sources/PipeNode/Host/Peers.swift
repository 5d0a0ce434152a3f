import PipeMachines
import PipeTransport
import PipeWire

/// An object that connects to peers, which may be on other hosts, and reconnects when a new process
/// replaces a peer.
protocol PeerConnector: AnyObject {
  /// Disconnects from a peer, because its process has ended or the node no longer has this peer.
  func disconnectPeer(from peer: String, at endpoints: PeerEndpoints)
  /// Connects to a peer at its current endpoints.
  func connectPeer(_ peer: String, at endpoints: PeerEndpoints)
}

/// The endpoints of a peer's inbox and feed, with the keys to reach them.
struct PeerEndpoints {
  let inbox: PeerEndpoint
  let feed: PeerEndpoint
}

/// The peers of a node to which other hosts can connect. When the orchestrator sends a new peer
/// list, this object updates the connections to the peers, and the gate that admits peers.
final class Peers {
  private struct Listener {
    weak var listener: (any PeerConnector)?
  }

  private let keys: NodeKeys
  private let log: NodeLog
  private var knownPeers = KnownPeers()
  private var endpointsByPeer: [String: PeerEndpoints] = [:]
  private var listeners: [Listener] = []

  init(_ keys: NodeKeys, log: NodeLog) {
    self.keys = keys
    self.log = log
  }

  /// The lower 32 bits of the number of the last list; 0 before the first list.
  var listNumber: UInt32 { UInt32(truncatingIfNeeded: knownPeers.listNumber ?? 0) }

  /// Returns the endpoints of a peer; `nil` if the node has no peer with this name.
  func endpoints(of peer: String) -> PeerEndpoints? { endpointsByPeer[peer] }

  /// Notifies `listener` of changes as long as the listener exists.
  func addListener(_ listener: any PeerConnector) {
    listeners.removeAll { $0.listener == nil }
    listeners.append(Listener(listener: listener))
  }

  /// Accepts the next peer list whatever its number, because a new orchestrator has connected.
  func resetForNewOrchestrator() { knownPeers.resetNumber() }

  /// Applies the peer list in the body of a `peers` frame. Ignores an outdated list.
  func apply(_ body: UnsafeRawBufferPointer, number: UInt64) throws {
    let list = try JSONRecord.decode(PeerList.self, from: body)
    // A list with an invalid key is rejected as a whole.
    let hasValidKeys = (list.peers.map(\.key) + list.clients).allSatisfy { PublicKey($0) != nil }
    guard hasValidKeys else { throw FrameError.body(.peers) }
    if let change = knownPeers.apply(list, number: number) { perform(change) }
  }

  /// Performs the changes: first the departures, then the arrivals, because a new process may have
  /// the endpoint of a departed process.
  private func perform(_ change: KnownPeers.Change) {
    for peer in change.departedPeers {
      guard let endpoints = endpointsByPeer.removeValue(forKey: peer.name) else { continue }
      for entry in listeners { entry.listener?.disconnectPeer(from: peer.name, at: endpoints) }
    }
    for key in change.revokedKeys.compactMap(PublicKey.init) { keys.gate.revoke(key) }
    for peer in change.admittedPeers { allow(peer) }
    for key in change.admittedClients.compactMap(PublicKey.init) {
      keys.gate.allow(key, as: .clientNames)
    }
    for peer in change.arrivedPeers {
      guard let endpoints = endpoints(at: peer) else { continue }
      endpointsByPeer[peer.name] = endpoints
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
      inbox: PeerEndpoint(peer.endpoints.inbox, key: key, own: keys.keyPair),
      feed: PeerEndpoint(peer.endpoints.feed, key: key, own: keys.keyPair))
  }
}

/// The last peer list of a node, as a value that computes the changes from one list to the next.
package struct KnownPeers: Sendable {
  package typealias Peer = PeerList.Peer

  /// The differences between two successive lists. Each array is sorted by name.
  package struct Change: Hashable, Sendable {
    /// The peers to disconnect from: their processes are gone or were replaced.
    package var departedPeers: [Peer] = []
    /// The keys of peers and clients that are no longer admitted.
    package var revokedKeys: [String] = []
    /// The peers whose keys are newly admitted, or admitted under other names.
    package var admittedPeers: [Peer] = []
    /// The keys of newly admitted clients.
    package var admittedClients: [String] = []
    /// The peers to connect to.
    package var arrivedPeers: [Peer] = []

    package init() {}
  }

  /// The number of the last list; `nil` before the first list of an orchestrator.
  package private(set) var listNumber: UInt64?
  private var peersByName: [String: Peer] = [:]
  private var clientKeys: Set<String> = []

  package init() {}

  /// Replaces the list of peers.
  /// - Parameter number: The number of the list. A list is old if its number is not higher than the
  ///   number of the last list.
  /// - Returns: The changes to apply; `nil` if the list is old.
  package mutating func apply(_ list: PeerList, number: UInt64) -> Change? {
    if let last = self.listNumber, number <= last { return nil }
    self.listNumber = number
    let (formerPeers, formerClients) = (peersByName, clientKeys)
    peersByName = Dictionary(list.peers.map { ($0.name, $0) }) {
      $0.incarnation > $1.incarnation ? $0 : $1
    }
    clientKeys = Set(list.clients)
    return change(from: formerPeers, formerClients)
  }

  /// Accepts the next list whatever its number, because a new orchestrator has connected.
  package mutating func resetNumber() { listNumber = nil }

  private func change(from formerPeers: [String: Peer], _ formerClients: Set<String>) -> Change {
    var change = Change()
    for (name, peer) in formerPeers.sorted(by: { $0.key < $1.key }) {
      if let now = peersByName[name], now.isSameProcess(as: peer) { continue }
      change.departedPeers.append(peer)
    }
    for (name, peer) in peersByName.sorted(by: { $0.key < $1.key }) {
      let former = formerPeers[name]
      if former?.key != peer.key || former?.names != peer.names {
        change.admittedPeers.append(peer)
      }
      if former?.isSameProcess(as: peer) != true { change.arrivedPeers.append(peer) }
    }
    let admittedKeys = clientKeys.union(peersByName.values.map(\.key))
    let former = formerClients.union(formerPeers.values.map(\.key))
    change.revokedKeys = former.subtracting(admittedKeys).sorted()
    change.admittedClients = clientKeys.subtracting(formerClients).sorted()
    return change
  }
}

extension PeerList.Peer {
  /// Whether both peers are the same process at the same endpoints.
  fileprivate func isSameProcess(as other: Self) -> Bool {
    incarnation == other.incarnation && key == other.key && endpoints == other.endpoints
  }
}

/// The `inproc` endpoints of a carrier node, at which the other nodes of its process connect to the
/// carrier node. Messages over `inproc` require no additional thread.
struct LocalPeer {
  let name: String
  /// The context in which the `inproc` endpoints exist.
  let context: Context
  let inbox = "inproc://inbox"
  let feed = "inproc://feed"
}

/// The objects that a node shares with all other nodes in the same process.
struct NodeEnvironment {
  let loop: PollLoop
  let context: Context
  /// The ZAP handler that answers for all gates in the context; `nil` if all processes are on one
  /// host.
  let zapHandler: ZapHandler?
  /// The carrier node; `nil` if the node has its own process.
  var carrier: LocalPeer?
  /// The contents of an embedded node's key file, which may be on another host; `nil` if the node
  /// has no key file.
  var keyFileContents: String?

  /// The number of peer sockets that the shared context can contain. If a node has more peers, its
  /// peer sockets require another context.
  var peerSocketCapacity: Int { Int(Context.SocketLimit.few.rawValue) / (carrier == nil ? 2 : 4) }
}
