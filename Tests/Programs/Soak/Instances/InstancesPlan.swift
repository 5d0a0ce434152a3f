import PipeRuntime

/// A random topology with keyed nodes. Some of the nodes have shards.
///
/// Each line of the topology is a caller that sends numbered visits to many keys, visitors that
/// count the visits of each key, and mirrors that count the steps of each visitor. Beside the lines,
/// clients open offers, which end by a timer, and create guests, which end by an effect.
struct InstancesPlan: Sendable {
  struct Line: Sendable {
    var number: Int
    /// The number of keys to which the caller sends visits.
    var keys: Int
    /// The capacities of the pipes to the visitors and to the mirrors.
    var capacities: (Int, Int)

    var caller: String { "caller\(number)" }
    var visitors: String { "visitors\(number)" }
    var mirrors: String { "mirrors\(number)" }
  }

  struct KeyedNode: Sendable {
    var name: String
    var shards: Int
    /// The maximum number of instances in memory.
    var resident: Int
  }

  static let offers = "offers"
  static let guests = "guests"
  /// The highest number of shards of a node.
  static let maximumShards = 3
  /// The number of offers. Each is opened again and again.
  static let offerCount = 12

  let lines: [Line]
  let keyedNodes: [KeyedNode]

  init(using generator: inout SplitMix64) {
    lines = (1...Int.random(in: 1...2, using: &generator)).map { number in
      Line(
        number: number, keys: Int.random(in: 1...60, using: &generator),
        capacities: (
          [1, 16, 256].randomElement(using: &generator)!,
          [4, 64, 1024].randomElement(using: &generator)!
        ))
    }
    var nodes: [KeyedNode] = []
    for name in lines.flatMap({ [$0.visitors, $0.mirrors] }) + [Self.offers, Self.guests] {
      nodes.append(
        KeyedNode(
          name: name, shards: Int.random(in: 1...Self.maximumShards, using: &generator),
          resident: [1, 5, 1_000].randomElement(using: &generator)!))
    }
    keyedNodes = nodes
  }

  private func specification(
    of node: KeyedNode, machine: String, parameters: JSONValue = [:], final: [String] = []
  ) -> NodeSpecification {
    .machine(
      machine, name: node.name, parameters: parameters, restart: SoakPlan.restart, key: "key",
      maximumResidentInstances: node.resident, finalStates: final, shards: node.shards)
  }

  private func specification(of node: KeyedNode) -> NodeSpecification {
    switch node.name {
    case Self.offers: specification(of: node, machine: "Offer")
    case Self.guests:
      specification(of: node, machine: "Visitor", parameters: ["time": 20], final: ["rested"])
    default: specification(of: node, machine: "Visitor")
    }
  }
}

extension InstancesPlan: SoakSubject {
  var topic: SoakTopic { .instances }
  var summary: String {
    "\(lines.count) line\(lines.count == 1 ? "" : "s") of keyed nodes, "
      + "\(keyedNodes.reduce(0) { $0 + $1.shards }) shards"
  }
  var details: String {
    lines.map { "\($0.caller) \($0.keys) keys" }.joined(separator: " ") + " "
      + keyedNodes.map { "\($0.name)(\($0.shards) shards, \($0.resident) resident)" }
      .joined(separator: " ")
  }

  /// The names of all processes that may exist. The current number of a node's shards determines
  /// which of them exist.
  var faultTargets: [String] {
    lines.map(\.caller)
      + keyedNodes.flatMap { node in
        [node.name] + (0..<Self.maximumShards).map { "\(node.name).\($0)" }
      }
  }
  var hosts: [String: String] { [:] }
  var memberCoordinators: [MemberCoordinator] { [] }

  /// Returns the number of steps of all instances.
  func progress(_ directory: TopologyDirectory) -> Int {
    directory.nodes.reduce(0) { $0 + Int($1.status?.version ?? 0) }
  }

  func topology(
    name: String, program: String, environment: [String: String], durability: Durability,
    heartbeat: Duration
  ) -> Topology {
    var nodes =
      lines.map { NodeSpecification.machine("Caller", name: $0.caller, restart: SoakPlan.restart) }
      + keyedNodes.map(specification)
    for index in nodes.indices { nodes[index].durability = durability }
    return Topology(
      name: name, program: program, environment: environment, nodes: nodes,
      pipes: lines.flatMap { line in
        [
          .ports(
            from: line.caller + ".out", to: line.visitors + ".in", capacity: line.capacities.0),
          .rule(
            from: line.visitors, when: "visited", to: line.mirrors,
            send: ["visit": ["key": "$key", "n": "$times"]], capacity: line.capacities.1),
        ]
      },
      timeouts: SoakPlan.timeouts(heartbeat: heartbeat))
  }

  func load(_ client: ReattachingClient, _ durability: Durability, seed: UInt64) -> any SoakLoad {
    InstancesLoad(client, self, seed: seed)
  }
}
