import PipeRuntime

/// A random topology on several hosts. The plan consists of a topology of another topic, the
/// placement of its nodes, the consequences of a lost host, and a sequence of faults.
///
/// Hosts are a topic of their own, rather than an option of the other topics, for two reasons. This
/// topic requires root and Slurm. Its faults last for seconds, while the faults of other topics
/// last for milliseconds and concern files and sockets of one host. The topologies, their load and
/// the expected results are the same as in the other topics.
package struct HostsPlan: Sendable {
  package enum Base: Sendable {
    case pipes(SoakPlan)
    case meetings(MeetingPlan)
  }

  /// A placement in the deployment file, with the numbers of its hosts.
  package struct HostPlacement: Equatable, Sendable {
    package var name: String
    package var hosts: [Int]
    package var spare: [Int]
  }

  /// The placement of a node. A node without a placement runs on the orchestrator's host.
  package struct NodePlacement: Equatable, Sendable {
    package var place: String?
    package var moves = false
    package var durability: Durability
  }

  package let base: Base
  package private(set) var hostPlacements: [HostPlacement] = []
  /// The placements, by the names of the nodes.
  package private(set) var nodePlacements: [String: NodePlacement] = [:]
  /// The duration of a lease. Unit: milliseconds.
  package let lease: Int
  /// The interval of heartbeats. Unit: milliseconds.
  package let heartbeat: Int
  /// Whether faults last so long that Slurm removes silent hosts from its job. If so, no
  /// orchestrator is killed: its successor would be refused while a host of the deployment belongs
  /// to no job. See docs/CLUSTERS.md.
  package let hasLongFaults: Bool
  package private(set) var faults: [HostFault] = []
  /// The number that selects the failpoints which act more often.
  let focus: Int

  /// The numbers of the hosts on which nodes run.
  package static let hosts = [1, 2, 3]
  /// A node without a journal and without pipes, which moves between hosts.
  package static let isolatedNode = "loner"
  /// The time until Slurm notices that a host is silent, with a margin. Unit: milliseconds.
  package static let silenceLimit = 6_000

  /// - Parameter count: The number of faults.
  package init(faults count: Int, using generator: inout SplitMix64) {
    switch Int.random(in: 0..<4, using: &generator) {
    case 0, 1:
      let shape = SoakPlan.Shape.allCases.randomElement(using: &generator)!
      base = .pipes(SoakPlan(shape, using: &generator))
    case let kind:
      base = .meetings(MeetingPlan(hasModels: kind == 3, using: &generator))
    }
    lease = Int.random(in: 2_000...3_500, using: &generator)
    heartbeat = Int.random(in: 1_500...3_000, using: &generator)
    hasLongFaults = Bool.random(using: &generator)
    focus = Int.random(in: 0..<1_000, using: &generator)
    choosePlacements(using: &generator)
    for node in nodes { nodePlacements[node] = nodePlacement(using: &generator) }
    let multiHostPlacement = hostPlacements.first { $0.hosts.count + $0.spare.count > 1 }!
    nodePlacements[Self.isolatedNode] = NodePlacement(
      place: multiHostPlacement.name, moves: true, durability: .volatile)
    chooseFaults(count, using: &generator)
  }

  /// The names of the nodes with machines.
  private var nodes: [String] {
    switch base {
    case .pipes(let plan): plan.nodes.map(\.name)
    case .meetings(let plan): plan.members + plan.sources + [MeetingPlan.sink]
    }
  }

  var subject: any SoakSubject {
    switch base {
    case .pipes(let plan): plan
    case .meetings(let plan): plan
    }
  }

  // MARK: Places

  private mutating func choosePlacements(using generator: inout SplitMix64) {
    for name in ["front", "back", "hall"].prefix(Int.random(in: 2...3, using: &generator)) {
      let hosts = Self.hosts.shuffled(using: &generator)
      let count = Int.random(in: 1...2, using: &generator)
      // The first placement has spare hosts, to which nodes can move.
      let spare = Int.random(
        in: hostPlacements.isEmpty && count == 1 ? 1...2 : 0...1, using: &generator)
      hostPlacements.append(
        HostPlacement(
          name: name, hosts: Array(hosts.prefix(count)),
          spare: Array(hosts.dropFirst(count).prefix(spare))))
    }
  }

  private func nodePlacement(using generator: inout SplitMix64) -> NodePlacement {
    let durability: Durability =
      Int.random(in: 0..<3, using: &generator) == 0 ? .power : .process
    guard Int.random(in: 0..<8, using: &generator) > 0 else {
      return NodePlacement(durability: durability)
    }
    let place = hostPlacements.randomElement(using: &generator)!
    let moves =
      place.hosts.count + place.spare.count > 1 && Int.random(in: 0..<5, using: &generator) > 1
    return NodePlacement(place: place.name, moves: moves, durability: moves ? .power : durability)
  }

  /// Returns the text of the deployment file.
  /// - Parameter journals: A directory that all hosts share.
  package func deployment(journals: String) -> String {
    func list(_ hosts: [Int]) -> String {
      "[" + hosts.map { "fh\($0)" }.joined(separator: ", ") + "]"
    }
    return """
      engine: slurm
      address: 10.77.0.10
      journals: \(journals)
      lease: \(lease)ms
      places:

      """
        + hostPlacements.map { place in
          "  \(place.name): { hosts: \(list(place.hosts))"
            + (place.spare.isEmpty ? "" : ", spare: \(list(place.spare))") + " }\n"
        }.joined()
  }

  /// The restart policy of all nodes: frequent kills require frequent restarts.
  ///
  /// The mode is `always`, because a node whose job step is cancelled ends gracefully.
  private static let restart = RestartPolicy(
    .always, maximumRestarts: 1_000_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(20), max: .milliseconds(500)))

  /// Returns the topology that the orchestrator runs.
  package func topology(
    name: String, program: String, environment: [String: String]
  ) -> Topology {
    var topology = subject.topology(
      name: name, program: program, environment: environment, durability: .process,
      heartbeat: .milliseconds(heartbeat))
    topology.timeouts.start = .seconds(30)
    topology.nodes.append(
      .machine(
        "NumberSource", name: Self.isolatedNode, parameters: ["id": .string(Self.isolatedNode)]))
    for index in topology.nodes.indices {
      topology.nodes[index].restart = Self.restart
      guard let nodePlacement = nodePlacements[topology.nodes[index].name] else { continue }
      topology.nodes[index].durability = nodePlacement.durability
      topology.nodes[index].place = nodePlacement.place
      topology.nodes[index].hostLossPolicy = nodePlacement.moves ? .move : .wait
    }
    return topology
  }

  // MARK: Faults

  private mutating func chooseFaults(_ count: Int, using generator: inout SplitMix64) {
    let kinds = HostFaultKind.allCases.flatMap { Array(repeating: $0, count: $0.weight) }
      .filter { !hasLongFaults || $0 != .orchestrator }
    let placedNodes = nodePlacements.keys.sorted().filter { nodePlacements[$0]?.place != nil }
    while faults.count < count {
      let kind = kinds.randomElement(using: &generator)!
      var fault = HostFault(
        kind: kind, gap: Int.random(in: 100...4_000, using: &generator),
        host: Self.hosts.randomElement(using: &generator)!,
        node: placedNodes.randomElement(using: &generator)!, time: 0)
      if kind == .partition, Int.random(in: 0..<8, using: &generator) == 0 { fault.host = 0 }
      if kind == .hangAndPartition {
        fault.host = host(of: fault.node, using: &generator)
      }
      let isShort = !hasLongFaults || fault.host == 0
      fault.time = Int.random(in: times(of: kind, isShort: isShort), using: &generator)
      faults.append(fault)
    }
  }

  /// Returns a random host on which a node may run.
  private func host(of node: String, using generator: inout SplitMix64) -> Int {
    let place = hostPlacements.first { $0.name == nodePlacements[node]?.place }!
    return (place.hosts + place.hosts + place.spare).randomElement(using: &generator)!
  }

  /// Returns the range of the duration of a fault. Unit: milliseconds.
  private func times(of kind: HostFaultKind, isShort: Bool) -> ClosedRange<Int> {
    let beyondLease = lease * 11 / 10 + 500
    switch kind {
    case .kill, .cancel: return 0...0
    case .pause: return 100...1_200
    case .hang: return beyondLease...(beyondLease + 8_000)
    case .hangAndPartition:
      return beyondLease...(isShort ? max(beyondLease, Self.silenceLimit) : beyondLease + 12_000)
    case .partition, .power, .daemon: return 1_000...(isShort ? Self.silenceLimit - 1_000 : 20_000)
    case .lossy: return 1_000...8_000
    case .controller: return 500...15_000
    // The orchestrator returns within the lease in some cases, and later in others.
    case .orchestrator: return 0...(lease * 3 / 2)
    }
  }

  // MARK: Random choices

  /// A description of the plan, for people.
  package var summary: String {
    let kind: String
    switch base {
    case .pipes(let plan): kind = plan.summary
    case .meetings(let plan): kind = plan.summary
    }
    return kind + "; lease \(lease) ms, heartbeat \(heartbeat) ms, "
      + (hasLongFaults ? "hosts are lost for long" : "orchestrators are killed")
  }

  /// The details of the plan, one aspect per line.
  package var details: [String] {
    func list(_ hosts: [Int]) -> String { hosts.map { "fh\($0)" }.joined(separator: "+") }
    return [
      "nodes: \(subject.details)",
      "embedded coordinators: "
        + subject.hosts.sorted { $0.key < $1.key }.map { "\($0.key) in \($0.value)" }
        .joined(separator: ", "),
      "places: "
        + hostPlacements.map {
          "\($0.name) \(list($0.hosts))" + ($0.spare.isEmpty ? "" : ", spare \(list($0.spare))")
        }.joined(separator: "; "),
      "spots: "
        + nodePlacements.sorted { $0.key < $1.key }.map { node, nodePlacement in
          "\(node) \(nodePlacement.place ?? "-") \(nodePlacement.moves ? "move" : "wait") \(nodePlacement.durability.rawValue)"
        }.joined(separator: ", "),
      "faults, each so long after the one before: "
        + faults.map(\.description).joined(separator: ", "),
    ]
  }
}
