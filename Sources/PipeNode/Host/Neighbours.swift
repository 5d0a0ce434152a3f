import PipeMachines
import PipeTransport
import PipeWire

/// Whoever connects to other nodes that may be on other hosts, and to others in their place later.
protocol TalksWithPeers: AnyObject {
  /// The process of that name that was talked with is gone, or talked with no more.
  func part(from peer: String, at places: PeerPlaces)
  /// There is a process of that name to talk with.
  func meet(_ peer: String, at places: PeerPlaces)
}

/// Where another node takes events and tells its states, and by which keys it is reached.
struct PeerPlaces {
  let inbox: PeerPlace
  let feed: PeerPlace
}

/// The other nodes with which one talks that is bound for other hosts: who they are now is told by its
/// orchestrator, and this tells those who talk with them, and the gate.
final class Neighbours {
  private struct Listener {
    weak var listener: (any TalksWithPeers)?
  }

  private let keys: NodeKeys
  private let log: NodeLog
  private var known = KnownNeighbours()
  private var places: [String: PeerPlaces] = [:]
  private var listeners: [Listener] = []

  init(_ keys: NodeKeys, log: NodeLog) {
    self.keys = keys
    self.log = log
  }

  /// The lower 32 bits of the number of the last list that was taken; 0 before the first one.
  var number: UInt32 { UInt32(truncatingIfNeeded: known.number ?? 0) }

  /// Where a peer is; `nil` while it is not there.
  func places(of peer: String) -> PeerPlaces? { places[peer] }

  /// Tells somebody of what changes from now on, for as long as it is there.
  func tell(_ listener: any TalksWithPeers) {
    listeners.removeAll { $0.listener == nil }
    listeners.append(Listener(listener: listener))
  }

  /// Another orchestrator has come, which counts anew.
  func orchestratorHasChanged() { known.forgetNumber() }

  /// Takes the body of `neighbours`; an old one is passed over.
  func take(_ body: UnsafeRawBufferPointer, number: UInt64) throws {
    let told = try JSONRecord.decode(Neighbourhood.self, from: body)
    // Nothing of a list is taken that has a key that is none.
    let isWhole = (told.peers.map(\.key) + told.clients).allSatisfy { PublicKey($0) != nil }
    guard isWhole else { throw FrameError.body(.neighbours) }
    if let change = known.take(told, number: number) { perform(change) }
  }

  /// First who is gone, then who has come: a new process may be where the old one was.
  private func perform(_ change: KnownNeighbours.Change) {
    for peer in change.parted {
      guard let places = places.removeValue(forKey: peer.name) else { continue }
      for entry in listeners { entry.listener?.part(from: peer.name, at: places) }
    }
    for key in change.revoked.compactMap(PublicKey.init) { keys.gate.revoke(key) }
    for peer in change.allowed { allow(peer) }
    for key in change.clients.compactMap(PublicKey.init) { keys.gate.allow(key, as: .ofClients) }
    for peer in change.met {
      guard let places = places(at: peer) else { continue }
      self.places[peer.name] = places
      for entry in listeners { entry.listener?.meet(peer.name, at: places) }
    }
  }

  private func allow(_ peer: Neighbourhood.Peer) {
    guard let key = PublicKey(peer.key) else { return }
    let names = Set(peer.names.map { Array($0.utf8) })
    if keys.gate.allow(key, as: .only(names)) { return }
    log.warning(
      "'\(peer.name)' is to be let in with key '\(key)', which was revoked before: it is turned away. "
        + "Start that node again, with a key pair of its own")
  }

  private func places(at peer: Neighbourhood.Peer) -> PeerPlaces? {
    guard let key = PublicKey(peer.key) else { return nil }
    return PeerPlaces(
      inbox: PeerPlace(peer.endpoints.inbox, key: key, own: keys.pair),
      feed: PeerPlace(peer.endpoints.feed, key: key, own: keys.pair))
  }
}

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

/// A node in the same process, as another one there reaches it: without a thread between them.
struct NeighbouringNode {
  let name: String
  /// In which its endpoints are, and nowhere else.
  let context: Context
  let inbox = "inproc://inbox"
  let feed = "inproc://feed"
}

/// Where the shell of a node is: what it shares with others of its process.
struct NodePlace {
  let loop: PollLoop
  let context: Context
  /// Answers for all gates in the context; `nil` where the process is on one host with all others.
  let handler: ZapHandler?
  /// The node in whose process it lives; `nil` where it has one of its own.
  var host: NeighbouringNode?
  /// What a lodger's key file holds, where it is on another host than that; `nil` where it is none.
  var key: String?

  /// How many sockets of its peers may be in the shared context; more are in one of their own.
  var roomForPeers: Int { Int(Context.Room.few.rawValue) / (host == nil ? 2 : 4) }
}
