import PipeSupport

/// The nodes, pipes, composites and monitors of a topology, with their current conditions if the
/// topology is running.
package struct Wiring: Hashable, Sendable {
  /// The current condition of a node or a composite.
  package struct Condition: Hashable, Sendable {
    /// A readable form of the state, or the reason why the state is unknown.
    package var text: String
    package var isRunning: Bool

    package init(text: String, isRunning: Bool) {
      self.text = text
      self.isRunning = isRunning
    }
  }

  package struct Node: Hashable, Sendable {
    package var name: String
    /// The registered name of the node's machine; `nil` for a constant.
    package var machine: String?
    /// A readable form of the state, if the node is a constant.
    package var constant: String?
    package var currentCondition: Condition?

    package init(
      name: String, machine: String?, constant: String? = nil, currentCondition: Condition? = nil
    ) {
      self.name = name
      self.machine = machine
      self.constant = constant
      self.currentCondition = currentCondition
    }
  }

  package struct Pipe: Hashable, Sendable {
    package var name: String
    package var from: String
    package var to: String
    /// The text for the pipe's two ends.
    ///
    /// The text contains an out-port and an in-port, such as `arrivals → updates`, or the state and
    /// the event of a rule, such as `closed → start`.
    package var label: String
    /// The fill level of the pipe: the number of events in flight, and the capacity.
    package var fillLevel: FillLevel?

    package init(
      name: String, from: String, to: String, label: String, fill: FillLevel? = nil
    ) {
      self.name = name
      self.from = from
      self.to = to
      self.label = label
      self.fillLevel = fill
    }
  }

  package struct FillLevel: Hashable, Sendable {
    package var waitingCount: Int
    package var capacity: Int

    package init(waiting: Int, capacity: Int) {
      self.waitingCount = waiting
      self.capacity = capacity
    }
  }

  package struct Composite: Hashable, Sendable {
    package var name: String
    /// The nodes of the composite, including the nodes of composites in it.
    package var nodes: [String]
    /// The synchronized events, each with its participants.
    package var events: [(name: String, participants: [String])]
    package var currentCondition: Condition?

    package init(
      name: String, nodes: [String], events: [(name: String, participants: [String])],
      currentCondition: Condition? = nil
    ) {
      self.name = name
      self.nodes = nodes
      self.events = events
      self.currentCondition = currentCondition
    }
  }

  package struct Monitor: Hashable, Sendable {
    package var name: String
    /// The nodes whose states the monitor receives; `nil` for all nodes.
    package var watchedNodes: [String]?
    package var currentCondition: Condition?

    package init(name: String, watched: [String]?, currentCondition: Condition? = nil) {
      self.name = name
      self.watchedNodes = watched
      self.currentCondition = currentCondition
    }
  }

  package var topology: String
  package var nodes: [Node]
  package var pipes: [Pipe]
  package var composites: [Composite]
  package var monitors: [Monitor]

  package init(
    topology: String, nodes: [Node] = [], pipes: [Pipe] = [], composites: [Composite] = [],
    monitors: [Monitor] = []
  ) {
    self.topology = topology
    self.nodes = nodes
    self.pipes = pipes
    self.composites = composites
    self.monitors = monitors
  }
}

extension Wiring.Composite {
  package static func == (left: Self, right: Self) -> Bool {
    left.name == right.name && left.nodes == right.nodes
      && left.currentCondition == right.currentCondition
      && left.events.elementsEqual(right.events) { $0 == $1 }
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(name) }
}

extension Wiring {
  /// The wiring as a graph. A composite is a frame, or a box if it shares nodes with other
  /// composites.
  package var graph: Graph {
    var graph = Graph(title: topology)
    let frameComposites = composites.filter(isFrame)
    graph.clusters = frameComposites.map { composite in
      Graph.Cluster(
        Self.clusterID(composite.name), lines: Self.lines(of: composite),
        marks: Self.marks(of: composite.currentCondition),
        parent: frame(around: Set(composite.nodes), of: composite.name, frameComposites))
    }
    graph.nodes = nodes.map { node in
      Graph.Node(
        node.name, node.constant == nil ? .machine : .constant, lines: Self.lines(of: node),
        marks: Self.marks(of: node.currentCondition),
        cluster: frame(around: [node.name], of: nil, frameComposites))
    }
    for composite in composites {
      addBox(of: composite, frameComposites.contains(composite), to: &graph)
    }
    for monitor in monitors {
      graph.nodes.append(
        Graph.Node(
          monitor.name, .monitor,
          lines: [monitor.name, monitor.watchedNodes == nil ? "watches all" : "watches"],
          marks: Self.marks(of: monitor.currentCondition)))
      graph.edges += (monitor.watchedNodes ?? []).map { Graph.Edge($0, monitor.name, .watch) }
    }
    graph.edges += pipes.map { Graph.Edge($0.from, $0.to, .pipe, labels: [$0.text]) }
    return graph
  }

  /// Adds a box for a composite, if the composite is not drawn as a frame, or has pipes.
  private func addBox(of composite: Composite, _ isFramed: Bool, to graph: inout Graph) {
    let hasPipes = pipes.contains { $0.from == composite.name || $0.to == composite.name }
    guard !isFramed || hasPipes else { return }
    graph.nodes.append(
      Graph.Node(
        composite.name, .composite,
        lines: isFramed ? [composite.name] : Self.lines(of: composite),
        marks: isFramed ? [] : Self.marks(of: composite.currentCondition),
        cluster: isFramed ? Self.clusterID(composite.name) : nil))
    guard !isFramed else { return }
    graph.edges += composite.nodes.map { node in
      Graph.Edge(
        composite.name, node, .part,
        labels: composite.events.filter {
          $0.participants.contains(node) && $0.participants.count < composite.nodes.count
        }.map(\.name))
    }
  }

  /// Returns whether a composite can be drawn as a frame.
  ///
  /// Every other composite must have no node in common with this composite, or one of the two must
  /// contain all nodes of the other composite and at least one more node.
  private func isFrame(_ composite: Composite) -> Bool {
    let own = Set(composite.nodes)
    guard !own.isEmpty else { return false }
    return composites.allSatisfy { other in
      let others = Set(other.nodes)
      guard other.name != composite.name else { return true }
      return own.isDisjoint(with: others) || own.isStrictSubset(of: others)
        || own.isStrictSuperset(of: others)
    }
  }

  /// Returns the identifier of the smallest frame that contains the given nodes; `nil` if there is
  /// none.
  /// - Parameter name: A composite whose frame is ignored; `nil` for none.
  private func frame(
    around nodes: Set<String>, of name: String?, _ frameComposites: [Composite]
  ) -> String? {
    frameComposites.filter { $0.name != name && nodes.isSubset(of: $0.nodes) }
      .min { ($0.nodes.count, $0.name) < ($1.nodes.count, $1.name) }.map { Self.clusterID($0.name) }
  }

  /// Returns the identifier of a composite's frame, which differs from the identifier of the
  /// composite's box.
  package static func clusterID(_ composite: String) -> String { "composite:\(composite)" }

  private static func lines(of node: Node) -> [String] {
    var lines = [node.name]
    if let machine = node.machine { lines.append(machine) }
    if let currentCondition = node.currentCondition {
      lines.append("= " + (currentCondition.text.isEmpty ? "-" : currentCondition.text))
    } else if let constant = node.constant {
      lines.append("always \(constant)")
    }
    return lines
  }

  /// Returns the lines of text for a composite. Events in which all nodes participate share one
  /// line. Each other event has its own line, with its participants.
  private static func lines(of composite: Composite) -> [String] {
    let all = Set(composite.nodes)
    let events = composite.events.sorted { $0.name < $1.name }
    let commonEvents = events.filter { Set($0.participants) == all }.map(\.name)
    var lines = [composite.name]
    if !commonEvents.isEmpty { lines.append("together: " + commonEvents.joined(separator: ", ")) }
    for event in events where Set(event.participants) != all {
      lines.append("\(event.name): " + event.participants.sorted().joined(separator: " + "))
    }
    if let currentCondition = composite.currentCondition {
      lines.append("= " + (currentCondition.text.isEmpty ? "-" : currentCondition.text))
    }
    return lines
  }

  private static func marks(of currentCondition: Condition?) -> Set<Graph.Mark> {
    currentCondition.map { $0.isRunning ? [] : [.down] } ?? []
  }
}

extension Wiring.Pipe {
  /// The label, followed by the fill level, such as `closed → start  3/1024`.
  fileprivate var text: String {
    fillLevel.map { "\(label)  \($0.waitingCount)/\($0.capacity)" } ?? label
  }
}
