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

  /// Returns the change for the last one of some lists, which are numbered from 1.
  private func last(_ lists: PeerList...) -> Change? {
    var known = KnownPeers()
    var change: Change?
    for (place, list) in lists.enumerated() { change = known.take(list, number: UInt64(place) + 1) }
    return change
  }

  private func change(_ fill: (inout Change) -> Void) -> Change {
    var change = Change()
    fill(&change)
    return change
  }

  @Test("The first list admits and connects all peers")
  func first() {
    let (door, motor) = (peer("door", names: ["pipe/a"]), peer("motor"))
    #expect(
      last(PeerList(peers: [motor, door], clients: ["me"]))
        == change {
          $0.admitted = [door, motor]
          $0.arrived = [door, motor]
          $0.clients = ["me"]
        })
  }

  @Test("A repeated list changes nothing")
  func same() {
    let list = PeerList(peers: [peer("door"), peer("motor")], clients: ["me"])
    let turned = PeerList(peers: list.peers.reversed(), clients: ["me"])
    #expect(last(list, turned) == Change())
  }

  @Test("A peer's new process replaces the former one, whose key is revoked")
  func replaced() {
    #expect(
      last(
        PeerList(peers: [peer("door", 1), peer("motor")], clients: []),
        PeerList(peers: [peer("door", 2), peer("motor")], clients: []))
        == change {
          $0.departed = [peer("door", 1)]
          $0.revoked = ["door1"]
          $0.admitted = [peer("door", 2)]
          $0.arrived = [peer("door", 2)]
        })
  }

  @Test("A peer missing from the list is disconnected, and its key is revoked")
  func gone() {
    #expect(
      last(
        PeerList(peers: [peer("door"), peer("motor")], clients: []),
        PeerList(peers: [peer("motor")], clients: []))
        == change {
          $0.departed = [peer("door")]
          $0.revoked = ["door1"]
        })
  }

  @Test("New names of the same process are admitted without a new connection")
  func names() {
    #expect(
      last(
        PeerList(peers: [peer("door", names: ["pipe/a"])], clients: []),
        PeerList(peers: [peer("door", names: ["pipe/b"])], clients: []))
        == change { $0.admitted = [peer("door", names: ["pipe/b"])] })
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
          $0.departed = [peer("door")]
          $0.arrived = [there]
        })
  }

  @Test("Clients' keys are admitted and revoked")
  func clients() {
    #expect(
      last(
        PeerList(peers: [], clients: ["a", "b"]),
        PeerList(peers: [], clients: ["b", "c"]))
        == change {
          $0.revoked = ["a"]
          $0.clients = ["c"]
        })
  }

  @Test("An old list is ignored, until another orchestrator numbers lists from the start")
  func old() {
    var known = KnownPeers()
    let list = PeerList(peers: [peer("door")], clients: [])
    #expect(known.take(list, number: 5) != nil)
    for number in [UInt64(5), 4, 0] {
      #expect(known.take(PeerList(peers: [], clients: []), number: number) == nil)
    }
    #expect(known.take(list, number: 6) == Change())
    known.resetNumber()
    #expect(known.take(list, number: 1) == Change())
    #expect(known.take(list, number: 1) == nil)
  }
}
