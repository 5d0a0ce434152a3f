import PipeWire

/// The peers of each process of a deployed topology, and the routing ids that they use; a value made
/// from the plan.
package struct PeerLists: Sendable {
  /// The plan of one node.
  package struct NodePlan: Sendable {
    package var name: String
    package var configuration: NodeConfiguration
    package var isMonitor: Bool

    package init(_ name: String, _ configuration: NodeConfiguration, isMonitor: Bool = false) {
      self.name = name
      self.configuration = configuration
      self.isMonitor = isMonitor
    }
  }

  /// A process that has started.
  package struct Member: Hashable, Sendable {
    package var incarnation: UInt64
    /// The public key of the process.
    package var key: String
    package var endpoints: NodeEndpoints

    package init(incarnation: UInt64, key: String, endpoints: NodeEndpoints) {
      self.incarnation = incarnation
      self.key = key
      self.endpoints = endpoints
    }
  }

  /// By node: the routing ids that each of its peers may use at its inbox.
  private var names: [String: [String: Set<String>]] = [:]
  /// The monitors, which connect like clients, each with the key pair of its process.
  private var monitors: Set<String> = []

  package init(_ nodes: [NodePlan]) {
    for node in nodes {
      for out in node.configuration.outs {
        join(node.name, to: out.receiver, as: WireName.pipe(out.name))
      }
      for component in node.configuration.plan?.components ?? [] {
        join(node.name, to: component.name, as: WireName.coordinator(node.name))
      }
      if node.isMonitor { monitors.insert(node.name) }
    }
  }

  /// Makes two nodes peers: both learn each other's endpoints, and the receiver learns the routing id
  /// of the sender. They may be the same node.
  private mutating func join(_ sender: String, to receiver: String, as name: String) {
    names[receiver, default: [:]][sender, default: []].insert(name)
    names[sender, default: [:]][receiver, default: []].formUnion([])
  }

  package func isMonitor(_ node: String) -> Bool { monitors.contains(node) }

  /// Returns the nodes whose peer lists change when a process of this node starts or ends, without the
  /// node itself.
  /// - Returns: `nil` for all nodes.
  package func peerNodes(of node: String) -> Set<String>? {
    isMonitor(node) ? nil : Set((names[node] ?? [:]).keys)
  }

  /// Returns the peer list of a node.
  /// - Parameters:
  ///   - members: The processes that have started, by node.
  ///   - clients: The keys of clients that belong to no node.
  package func peerList(
    of node: String, among members: [String: Member], clients: [String]
  ) -> PeerList {
    let peers = (names[node] ?? [:]).sorted { $0.key < $1.key }.compactMap { name, names in
      members[name].map {
        PeerList.Peer(
          name: name, incarnation: $0.incarnation, endpoints: $0.endpoints, key: $0.key,
          names: names.sorted())
      }
    }
    let observers = monitors.sorted().filter { $0 != node }.compactMap { members[$0]?.key }
    return PeerList(peers: peers, clients: clients + observers)
  }
}

/// The last peer list sent to each process of a deployed topology; a value.
///
/// A broken connection loses the frames in flight. So each status of a node has the number of its peer
/// list, and the last list is sent again if the numbers differ.
package struct SentPeerLists {
  /// A peer list to send to a node.
  package struct Notice: Hashable {
    package let node: String
    package let number: UInt64
    package let peerList: PeerList
  }

  private var last: [String: Notice] = [:]
  private var number: UInt64

  /// - Parameter generation: The number of orchestrators before this one. It makes the numbers of this
  ///   orchestrator's lists higher than theirs.
  package init(after generation: UInt64 = 0) { number = generation << 20 }

  /// Numbers a peer list for a node.
  /// - Returns: The list to send; `nil` if it equals the last list sent to the node.
  package mutating func announce(_ peerList: PeerList, to node: String) -> Notice? {
    guard last[node]?.peerList != peerList else { return nil }
    number += 1
    let notice = Notice(node: node, number: number, peerList: peerList)
    last[node] = notice
    return notice
  }

  /// Compares the number of the peer list that a node has with the number of the last list sent to it.
  /// - Parameter number: The lower 32 bits of the number; 0 if the node has no list.
  /// - Returns: The list to send again; `nil` if the node has the last one, or was sent none.
  package func again(_ node: String, has number: UInt32) -> Notice? {
    guard let notice = last[node], UInt32(truncatingIfNeeded: notice.number) != number else {
      return nil
    }
    return notice
  }

  /// Forgets the last list of a process that is gone, or may have lost the list.
  package mutating func forget(_ node: String) { last[node] = nil }
}
