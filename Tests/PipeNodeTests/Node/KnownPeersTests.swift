import PipeNode
import PipeWire
import Testing

@Suite("A node's peer list")
struct KnownPeersTests {
  private typealias Peer = PeerList.Peer
  private typealias Change = KnownPeers.Change

  private func peer(
    _ name: String, _ incarnation: UInt64 = 1, names: [String] = []
  ) -> Peer {
    Peer(
      name: name, incarnation: incarnation,
      endpoints: NodeEndpoints(
        inbox: "tcp://127.0.0.1:\(incarnation)1", feed: "tcp://127.0.0.1:\(incarnation)2"),
      key: "\(name)\(incarnation)", names: names)
  }

  /// Returns the change that the last of some lists causes. The lists are numbered from 1.
  private func last(_ lists: PeerList...) -> Change? {
    var known = KnownPeers()
    var change: Change?
    for (place, list) in lists.enumerated() {
      change = known.apply(list, number: UInt64(place) + 1)
    }
    return change
  }

  private func change(_ fill: (inout Change) -> Void) -> Change {
    var change = Change()
    fill(&change)
    return change
  }

  @Test("The first peer list admits and connects all peers")
  func first() {
    let (door, motor) = (peer("door", names: ["pipe/a"]), peer("motor"))
    #expect(
      last(PeerList(peers: [motor, door], clients: ["me"]))
        == change {
          $0.admittedPeers = [door, motor]
          $0.arrivedPeers = [door, motor]
          $0.admittedClients = ["me"]
        })
  }

  @Test("A repeated peer list changes nothing")
  func same() {
    let list = PeerList(peers: [peer("door"), peer("motor")], clients: ["me"])
    let turned = PeerList(peers: list.peers.reversed(), clients: ["me"])
    #expect(last(list, turned) == Change())
  }

  @Test("A peer's new process replaces the former process, and the former key is revoked")
  func replaced() {
    #expect(
      last(
        PeerList(peers: [peer("door", 1), peer("motor")], clients: []),
        PeerList(peers: [peer("door", 2), peer("motor")], clients: []))
        == change {
          $0.departedPeers = [peer("door", 1)]
          $0.revokedKeys = ["door1"]
          $0.admittedPeers = [peer("door", 2)]
          $0.arrivedPeers = [peer("door", 2)]
        })
  }

  @Test("A peer that is missing in the peer list is disconnected, and its key is revoked")
  func gone() {
    #expect(
      last(
        PeerList(peers: [peer("door"), peer("motor")], clients: []),
        PeerList(peers: [peer("motor")], clients: []))
        == change {
          $0.departedPeers = [peer("door")]
          $0.revokedKeys = ["door1"]
        })
  }

  @Test("New names of the same process are admitted without a new connection")
  func names() {
    #expect(
      last(
        PeerList(peers: [peer("door", names: ["pipe/a"])], clients: []),
        PeerList(peers: [peer("door", names: ["pipe/b"])], clients: []))
        == change { $0.admittedPeers = [peer("door", names: ["pipe/b"])] })
  }

  @Test("A peer with the same key at another endpoint is reconnected and keeps its key")
  func moved() {
    var there = peer("door")
    there.endpoints.inbox = "tcp://127.0.0.1:99"
    #expect(
      last(
        PeerList(peers: [peer("door")], clients: []),
        PeerList(peers: [there], clients: []))
        == change {
          $0.departedPeers = [peer("door")]
          $0.arrivedPeers = [there]
        })
  }

  @Test("Clients' keys are admitted and revoked")
  func clients() {
    #expect(
      last(
        PeerList(peers: [], clients: ["a", "b"]),
        PeerList(peers: [], clients: ["b", "c"]))
        == change {
          $0.revokedKeys = ["a"]
          $0.admittedClients = ["c"]
        })
  }

  @Test("A peer list with an old number is ignored, unless a new orchestrator restarts the numbers")
  func old() {
    var known = KnownPeers()
    let list = PeerList(peers: [peer("door")], clients: [])
    #expect(known.apply(list, number: 5) != nil)
    for number in [UInt64(5), 4, 0] {
      #expect(known.apply(PeerList(peers: [], clients: []), number: number) == nil)
    }
    #expect(known.apply(list, number: 6) == Change())
    known.resetNumber()
    #expect(known.apply(list, number: 1) == Change())
    #expect(known.apply(list, number: 1) == nil)
  }
}
