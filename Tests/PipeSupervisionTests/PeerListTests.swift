import PipeSupervision
import PipeWire
import Testing

@Suite("The peer lists of a deployed topology")
struct PeerListTests {
  private func out(_ name: String, to receiver: String) -> NodeConfiguration.Out {
    .init(name: name, receiver: receiver, endpoint: "", capacity: 1, isDurable: false)
  }

  private func member(_ name: String, _ incarnation: UInt64 = 1) -> PeerLists.Member {
    .init(
      incarnation: incarnation, key: "key of \(name)",
      endpoints: NodeEndpoints(inbox: "inbox of \(name)", feed: "feed of \(name)"))
  }

  /// Two pipes from a door to a motor, one pipe back, a coordinator of door and motor, a separate
  /// lamp, and a monitor.
  private var hall: PeerLists {
    let components = ["door", "motor"].map {
      CoordinatorPlan.Component(name: $0, inbox: "", feed: "")
    }
    let plan = CoordinatorPlan(
      ConflictClassPlan(
        name: "lift", program: "", durability: .volatile, composites: [], components: []),
      components: components)
    return PeerLists([
      .init(
        "door",
        NodeConfiguration(outs: [
          out("calls", to: "motor"), out("alarms", to: "motor"), out("own", to: "door"),
        ])),
      .init(
        "motor", NodeConfiguration(outs: [out("stops", to: "door"), out("steps", to: "lift")])),
      .init("lift", NodeConfiguration(plan: plan)),
      .init("lamp", NodeConfiguration()),
      .init("watch", NodeConfiguration(), isMonitor: true),
    ])
  }

  private func peers(
    of node: String, _ present: [String], clients: [String] = []
  ) -> PeerList {
    let members = present.map { ($0, member($0)) }
    return hall.peerList(
      of: node, among: Dictionary(uniqueKeysWithValues: members), clients: clients)
  }

  @Test(
    "A node's peer list has the other ends of its pipes, its coordinators and its participants",
    arguments: [
      ("door", ["door": ["pipe/own"], "lift": ["sync/lift"], "motor": ["pipe/stops"]]),
      ("motor", ["door": ["pipe/alarms", "pipe/calls"], "lift": ["sync/lift"]]),
      ("lift", ["door": [], "motor": ["pipe/steps"]]),
      ("lamp", [:]), ("watch", [:]),
    ])
  func names(node: String, expected: [String: [String]]) {
    let announced = peers(of: node, ["door", "motor", "lift", "lamp", "watch"])
    #expect(announced.peers.map(\.name) == expected.keys.sorted())
    for peer in announced.peers {
      #expect(peer.names == expected[peer.name], "\(peer)")
      #expect(peer.endpoints == member(peer.name).endpoints && peer.key == member(peer.name).key)
    }
  }

  @Test("Absent processes are not in a peer list")
  func absent() {
    #expect(peers(of: "door", ["door", "lift"]).peers.map(\.name) == ["door", "lift"])
  }

  @Test("Monitors are admitted like clients, at all nodes except themselves")
  func monitors() {
    let present = ["door", "motor", "watch"]
    #expect(peers(of: "lamp", present, clients: ["c"]).clients == ["c", "key of watch"])
    #expect(peers(of: "watch", present, clients: ["c"]).clients == ["c"])
    #expect(peers(of: "lamp", ["door"], clients: ["c"]).clients == ["c"])
  }

  @Test("A new process changes the lists of its peers, and a new monitor changes all lists")
  func affected() {
    #expect(hall.peerNodes(of: "door") == ["door", "motor", "lift"])
    #expect(hall.peerNodes(of: "lift") == ["door", "motor"])
    #expect(hall.peerNodes(of: "lamp") == [])
    #expect(hall.peerNodes(of: "watch") == nil)
  }

  @Test("A peer list is sent once to a node, and again if the node reports another list")
  func again() {
    var lists = SentPeerLists()
    #expect(lists.noticeToRepeat("door", has: 0) == nil)
    let alone = PeerList(peers: [], clients: ["key"])
    let all = peers(of: "door", ["door", "motor"], clients: ["key"])
    let first = lists.announce(alone, to: "door")
    let repeated = lists.announce(alone, to: "door")
    let other = lists.announce(alone, to: "motor")
    #expect(first?.number == 1 && repeated == nil && other?.number == 2)
    #expect(lists.noticeToRepeat("door", has: 0) == first)
    #expect(lists.noticeToRepeat("door", has: 1) == nil)
    let newer = lists.announce(all, to: "door")
    #expect(newer?.number == 3)
    #expect(lists.noticeToRepeat("door", has: 1) == newer)
    // The node says hello on a new connection, and may have lost its list.
    lists.forget("door")
    #expect(lists.noticeToRepeat("door", has: 3) == nil)
    let once = lists.announce(all, to: "door")
    #expect(once?.peerList == all && once?.number == 4)
  }

  @Test(
    "Peer list numbers of different orchestrators differ, even if cut to 32 bits"
  )
  func generations() {
    var numbers: [UInt64] = []
    for generation in UInt64(0)...5 {
      var lists = SentPeerLists(after: generation)
      for count in 1...3 {
        let list = PeerList(peers: [], clients: ["\(count)"])
        guard let number = lists.announce(list, to: "door")?.number else { continue }
        numbers.append(number)
        // A list number from the former orchestrator matches none of these.
        #expect(
          lists.noticeToRepeat("door", has: UInt32(truncatingIfNeeded: number &- 1 << 20)) != nil)
      }
    }
    #expect(numbers == numbers.sorted() && Set(numbers).count == 18)
    #expect(Set(numbers.map { UInt32(truncatingIfNeeded: $0) }).count == 18)
  }
}
