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
