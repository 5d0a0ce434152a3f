import PipeWire

/// With whom each process of a deployed topology talks, and under which names; a value made of its plan.
package struct Neighbourhoods: Sendable {
  /// What is planned of a node.
  package struct Part: Sendable {
    package var name: String
    package var configuration: NodeConfiguration
    package var isMonitor: Bool

    package init(_ name: String, _ configuration: NodeConfiguration, isMonitor: Bool = false) {
      self.name = name
      self.configuration = configuration
      self.isMonitor = isMonitor
    }
  }

  /// A process that is there.
  package struct Member: Hashable, Sendable {
    package var incarnation: UInt64
    /// The public half of its pair.
    package var key: String
    package var endpoints: NodeEndpoints

    package init(incarnation: UInt64, key: String, endpoints: NodeEndpoints) {
      self.incarnation = incarnation
      self.key = key
      self.endpoints = endpoints
    }
  }

  /// By node, the routing ids that each of its peers may use at its inbox.
  private var names: [String: [String: Set<String>]] = [:]
  /// They attach as clients do, each with the pair of its process.
  private var monitors: Set<String> = []

  package init(_ nodes: [Part]) {
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

  /// Both learn where the other one is, and the receiver the name that the sender uses there. They may be one.
  private mutating func join(_ sender: String, to receiver: String, as name: String) {
    names[receiver, default: [:]][sender, default: []].insert(name)
    names[sender, default: [:]][receiver, default: []].formUnion([])
  }

  package func isMonitor(_ node: String) -> Bool { monitors.contains(node) }

  /// Those whose lists change where this process comes or goes, itself left out.
  /// - Returns: `nil` where these are all.
  package func neighbours(of node: String) -> Set<String>? {
    isMonitor(node) ? nil : Set((names[node] ?? [:]).keys)
  }

  /// What a node is told.
  /// - Parameters:
  ///   - members: The processes that are there, by node.
  ///   - clients: The keys of clients that belong to no node.
  package func neighbourhood(
    of node: String, among members: [String: Member], clients: [String]
  ) -> Neighbourhood {
    let peers = (names[node] ?? [:]).sorted { $0.key < $1.key }.compactMap { name, names in
      members[name].map {
        Neighbourhood.Peer(
          name: name, incarnation: $0.incarnation, endpoints: $0.endpoints, key: $0.key,
          names: names.sorted())
      }
    }
    let observers = monitors.sorted().filter { $0 != node }.compactMap { members[$0]?.key }
    return Neighbourhood(peers: peers, clients: clients + observers)
  }
}

/// What each process of a deployed topology was told last of its neighbours; as a value.
///
/// A connection that breaks takes with it what was under way. A node says with each status which list it has, and
/// is told the last one again where that is another one.
package struct ToldNeighbourhoods {
  /// A list to send to a node.
  package struct Notice: Hashable {
    package let node: String
    package let number: UInt64
    package let neighbourhood: Neighbourhood
  }

  private var last: [String: Notice] = [:]
  private var number: UInt64

  /// - Parameter generation: How many orchestrators have been there before, in whose place this one is: no list of
  ///   its is taken for one of theirs.
  package init(after generation: UInt64 = 0) { number = generation << 20 }

  /// - Returns: What to send; `nil` where the node was told that last.
  package mutating func tell(_ neighbourhood: Neighbourhood, to node: String) -> Notice? {
    guard last[node]?.neighbourhood != neighbourhood else { return nil }
    number += 1
    let notice = Notice(node: node, number: number, neighbourhood: neighbourhood)
    last[node] = notice
    return notice
  }

  /// A node has said which list it has.
  /// - Parameter number: The lower 32 bits of the list's; 0 for none.
  /// - Returns: What to send once more; `nil` where it has the last one, or was told none.
  package func again(_ node: String, has number: UInt32) -> Notice? {
    guard let notice = last[node], UInt32(truncatingIfNeeded: notice.number) != number else {
      return nil
    }
    return notice
  }

  /// The process is gone, or may have lost what it was told.
  package mutating func forget(_ node: String) { last[node] = nil }
}
