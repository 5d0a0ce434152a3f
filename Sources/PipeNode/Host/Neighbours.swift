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
