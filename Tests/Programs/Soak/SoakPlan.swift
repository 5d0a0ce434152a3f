import PipeRuntime
import NumberMachines

/// A random topology of the soak. Its nodes are arranged in layers, from sources to sinks.
package struct SoakPlan: Equatable, Sendable {
  package enum Shape: String, CaseIterable, Sendable {
    case chain, fan, diamond, merge, mixed
  }

  package enum Kind: String, CaseIterable, Sendable {
    case source, relay, filter, worker, gate, sink

    var machine: any NumberMachine.Type {
      switch self {
      case .source: NumberSource.self
      case .relay: NumberRelay.self
      case .filter: NumberFilter.self
      case .worker: NumberWorker.self
      case .gate: NumberGate.self
      case .sink: NumberSink.self
      }
    }

    /// The policy for numbers that the machine refuses. Machines that refuse numbers only
    /// temporarily need `postpone`.
    var onRefused: PipeSpecification.OnRefused {
      switch self {
      case .worker, .gate: .postpone
      case .source, .relay, .filter, .sink: .record
      }
    }
  }

  package struct Node: Equatable, Sendable {
    package var name: String
    package var kind: Kind

    var parameters: NumberParameters {
      var parameters = NumberParameters()
      parameters.id = name
      return parameters
    }
  }

  package struct Pipe: Equatable, Sendable {
    package var from: String
    package var to: String
    var capacity: Int
  }

  let shape: Shape
  /// The nodes, sorted from sources to sinks: each node comes after all nodes that send events to
  /// it.
  package private(set) var nodes: [Node] = []
  package private(set) var pipes: [Pipe] = []

  package var sources: [Node] { nodes.filter { $0.kind == .source } }

  package init(_ shape: Shape, using generator: inout SplitMix64) {
    self.shape = shape
    var before: [Node] = []
    let widths = Self.widths(of: shape, using: &generator)
    for (layer, width) in widths.enumerated() {
      let isLast = layer == widths.count - 1
      let nodes = (1...width).map { place in
        let kind: Kind =
          layer == 0 ? .source : isLast ? .sink : Self.middle.randomElement(using: &generator)!
        return Node(name: kind.rawValue + "\(layer)\(place)", kind: kind)
      }
      connect(before, to: nodes, using: &generator)
      self.nodes += nodes
      before = nodes
    }
  }

  private static let middle: [Kind] = [
    .relay, .relay, .relay, .worker, .worker, .gate, .gate, .filter,
  ]
  private static let capacities = [1, 3, 16, 256, 1024]

  /// Returns the number of nodes in each layer. The total is 5 to 12.
  private static func widths(
    of shape: Shape, using generator: inout SplitMix64
  ) -> [Int] {
    let some = Int.random(in: 2...3, using: &generator)
    switch shape {
    case .chain:
      return Array(repeating: 1, count: Int.random(in: 5...8, using: &generator))
    case .fan: return [1, 1, some, some]
    case .diamond: return [1, 1, some, 1, some, 1, 1]
    case .merge: return [some, some, 1, 1]
    case .mixed: return [2, Int.random(in: 1...2, using: &generator), some, 2, 2]
    }
  }

  private mutating func connect(
    _ senders: [Node], to receivers: [Node], using generator: inout SplitMix64
  ) {
    func add(_ from: Node, _ to: Node) {
      if pipes.contains(where: { $0.from == from.name && $0.to == to.name }) { return }
      pipes.append(
        Pipe(
          from: from.name, to: to.name,
          capacity: Self.capacities.randomElement(using: &generator)!))
    }
    if senders.isEmpty { return }
    if senders.count == 1 || receivers.count == 1 {
      for sender in senders { for receiver in receivers { add(sender, receiver) } }
      return
    }
    // Connect each node to a partner in the next layer. If the layers have different widths, some
    // nodes have two partners.
    for place in 0..<max(senders.count, receivers.count) {
      add(senders[place % senders.count], receivers[place % receivers.count])
    }
    if shape == .mixed {
      add(senders.randomElement(using: &generator)!, receivers.randomElement(using: &generator)!)
    }
  }

  /// The restart policy. Frequent kills require frequent restarts.
  static let restart = RestartPolicy(
    maximumRestarts: 1_000_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  /// Returns the timeouts. If a process is suspended when its orchestrator is killed, the next
  /// orchestrator gives the process up after the start timeout.
  static func timeouts(heartbeat: Duration) -> Timeouts {
    Timeouts(start: .seconds(5), heartbeat: heartbeat)
  }

  /// Returns a monitor of a source. An orchestrator does not adopt monitors.
  static func monitor(of source: String) -> MonitorSpecification {
    MonitorSpecification("Census", name: "census", watchedNames: [source])
  }

  /// Returns the names of the nodes that send events to a node.
  func senders(to node: String) -> [String] { pipes.filter { $0.to == node }.map(\.from) }

  /// Returns the topology that the orchestrator runs.
  package func topology(
    name: String, program: String, environment: [String: String], durability: Durability,
    heartbeat: Duration
  ) -> Topology {
    Topology(
      name: name, program: program, environment: environment,
      nodes: nodes.map { node in
        var specification = NodeSpecification.machine(
          node.kind.machine.name, name: node.name, parameters: ["id": .string(node.name)],
          restart: Self.restart)
        specification.durability = durability
        return specification
      },
      pipes: pipes.map { pipe in
        let receiver = nodes.first { $0.name == pipe.to }!
        return .ports(
          from: pipe.from + ".out", to: pipe.to + ".in", capacity: pipe.capacity,
          onRefused: receiver.kind.onRefused)
      },
      monitors: sources.prefix(1).map { Self.monitor(of: $0.name) },
      timeouts: Self.timeouts(heartbeat: heartbeat),
      // Half of the plans have the lowest limit, at which records are deleted most often.
      journal: JournalRetention(
        records: nodes.count.isMultiple(of: 2) ? JournalRetention.recordRange.lowerBound : 1_000))
  }
}
