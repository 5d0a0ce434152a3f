import PipeWire

/// The peers of each process of a deployed topology, and the routing ids that these peers use. This
/// value is derived from the launch plan, and its functions have no side effects.
package struct PeerLists: Sendable {
  /// The part of the launch plan that concerns one node's peers.
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

  /// For each node, and each of its peers: the routing ids that the peer may use at the node's
  /// inbox.
  private var routingIDs: [String: [String: Set<String>]] = [:]
  /// The monitors. Monitors connect like clients, but the process of each monitor has its own key
  /// pair.
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

  /// Makes two nodes peers: each node gets the other node's endpoints, and the receiver admits the
  /// sender's routing id. The sender and the receiver may be the same node.
  private mutating func join(_ sender: String, to receiver: String, as name: String) {
    routingIDs[receiver, default: [:]][sender, default: []].insert(name)
    routingIDs[sender, default: [:]][receiver, default: []].formUnion([])
  }

  package func isMonitor(_ node: String) -> Bool { monitors.contains(node) }

  /// Returns the other nodes whose peer lists change when a process of this node starts or ends.
  /// - Returns: The nodes; `nil` means all nodes.
  package func peerNodes(of node: String) -> Set<String>? {
    isMonitor(node) ? nil : Set((routingIDs[node] ?? [:]).keys)
  }

  /// Returns the peer list of a node.
  /// - Parameters:
  ///   - members: For each node, the process that has started.
  ///   - clients: The keys of the clients that are not nodes.
  package func peerList(
    of node: String, among members: [String: Member], clients: [String]
  ) -> PeerList {
    let peers = (routingIDs[node] ?? [:]).sorted { $0.key < $1.key }.compactMap { name, names in
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

/// The last peer list that was sent to each process of a deployed topology. The functions have no
/// side effects: the caller sends the peer lists.
///
/// If a connection breaks, a frame with a peer list may be lost. So each status of a node contains
/// the number of the node's peer list. If this is not the number of the last list that was sent to
/// the node, the last list is sent again.
package struct SentPeerLists {
  /// A peer list to send to a node.
  package struct Notice: Hashable {
    package let node: String
    package let number: UInt64
    package let peerList: PeerList
  }

  private var lastNotices: [String: Notice] = [:]
  private var lastNumber: UInt64

  /// - Parameter generation: The number of orchestrators that ran before this orchestrator. The
  ///   numbers of this orchestrator's lists are higher than the numbers of earlier orchestrators'
  ///   lists.
  package init(after generation: UInt64 = 0) { lastNumber = generation << 20 }

  /// Assigns a number to a peer list for a node.
  /// - Returns: The list to send; `nil` if it equals the list that was last sent to the node.
  package mutating func announce(_ peerList: PeerList, to node: String) -> Notice? {
    guard lastNotices[node]?.peerList != peerList else { return nil }
    lastNumber += 1
    let notice = Notice(node: node, number: lastNumber, peerList: peerList)
    lastNotices[node] = notice
    return notice
  }

  /// Returns the peer list that was last sent to a node, if the node has not received this list.
  /// - Parameter number: The lower 32 bits of the number of the list that the node has; 0 if the
  ///   node has no list.
  /// - Returns: The list to send again; `nil` if the node has the last list, or no list was sent to
  ///   the node.
  package func noticeToRepeat(_ node: String, has number: UInt32) -> Notice? {
    guard let notice = lastNotices[node], UInt32(truncatingIfNeeded: notice.number) != number else {
      return nil
    }
    return notice
  }

  /// Forgets the list that was last sent to a process, because the process has ended or may have
  /// lost the list.
  package mutating func forget(_ node: String) { lastNotices[node] = nil }
}
