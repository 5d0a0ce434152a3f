import PipeDiagrams
import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

extension Wiring {
  /// Makes the wiring of a topology from its file and its programs.
  package init(_ loaded: LoadedTopology) {
    let topology = loaded.topology
    let plans = loaded.conflictClasses.flatMap(\.composites)
    self.init(
      topology: topology.name,
      nodes: topology.nodes.map { node in
        Node(
          name: node.name, machine: node.machine, constant: node.constant.map(\.caseText))
      },
      pipes: topology.pipes.map {
        Pipe(name: $0.name, from: $0.sender, to: $0.receiver, label: $0.label)
      },
      composites: topology.composites.map { composite in
        let plan = plans.first { $0.name == composite.name }
        return Composite(
          name: composite.name, nodes: plan?.nodes ?? composite.components,
          events: (plan?.vectors ?? []).map { ($0.event, $0.participants) })
      },
      monitors: topology.monitors.map { Monitor(name: $0.name, watched: $0.watchedNames) })
  }
}

extension PipeSpecification {
  /// A label of the form `cause → event`, such as `arrivals → updates` or `closed → start`.
  fileprivate var label: String {
    let cause =
      switch source {
      case .port(let port): port
      case .state(let state, _): state
      case .states(let states, _):
        states.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: ",")
      }
    return [cause, eventTemplate?.caseName ?? inPort].compactMap(\.self).joined(separator: " → ")
  }
}

extension Wiring {
  /// Adds the current conditions of nodes, composites and monitors, and the fill levels of pipes.
  package mutating func add(_ directory: TopologyDirectory) {
    for index in nodes.indices {
      nodes[index].currentCondition = directory.condition(of: nodes[index].name)
    }
    for index in composites.indices {
      composites[index].currentCondition = directory.condition(of: composites[index].name)
    }
    for index in monitors.indices {
      monitors[index].currentCondition = directory.condition(of: monitors[index].name)
    }
    for index in pipes.indices {
      let ends = directory.nodes.lazy.compactMap(\.status).flatMap(\.outs)
      guard let end = ends.first(where: { [name = pipes[index].name] in $0.name == name }) else {
        continue
      }
      pipes[index].fillLevel = FillLevel(
        waiting: Int(clamping: end.underWay), capacity: end.capacity)
    }
  }
}

extension TopologyDirectory {
  fileprivate func condition(of name: String) -> Wiring.Condition {
    guard let node = self[node: name] else {
      return Wiring.Condition(text: "not in the running topology", isRunning: false)
    }
    guard node.isRunning else { return Wiring.Condition(text: node.phase, isRunning: false) }
    return Wiring.Condition(
      text: node.status?.state?.stateText(fields: node.stateFields) ?? "", isRunning: true)
  }
}
