import PipeMachines
import PipeTopology
import PipeWire

/// A searched topology that can be walked through step by step.
package final class ExploredTopology {
  /// The configurations of all nodes, and the contents of all pipes.
  package struct State: Hashable, Sendable {
    fileprivate let locals: [Int]
  }

  /// A step that is enabled in a state.
  package struct Step: Sendable {
    /// The node or the composite that receives the event.
    package let owner: String
    package let event: JSONValue
    package let origin: ScenarioStep.Origin
    /// Whether the event is refused and discarded.
    package let isRefused: Bool
    /// The events that are put into pipes; events for the same pipe are in order.
    package let sends: [EvaluatorSend]
    package let target: State
  }

  package let report: ExplorationReport
  private let topology: TopologyModel
  private let search: Exploration

  init(
    _ topology: TopologyModel, _ search: consuming Exploration,
    _ report: ExplorationReport
  ) {
    self.topology = topology
    self.search = search
    self.report = report
  }

  package var first: State { State(locals: search.model.initialState) }

  /// Returns whether the search visited a state.
  package func hasVisited(_ state: State) -> Bool { search.hasVisited(state.locals) }

  /// Returns the steps from a state.
  package func steps(from state: State) -> [Step] {
    search.model.steps(from: state.locals).map { number, target in
      let vector = topology.vectors[number]
      return Step(
        owner: vector.action.owner, event: vector.action.event,
        origin: topology.origin(of: vector.action),
        isRefused: vector.endings.contains(.refused), sends: sends(of: vector),
        target: State(locals: target))
    }
  }

  private func sends(of vector: TopologyModel.Vector) -> [EvaluatorSend] {
    var sends: [ExploredSend] = []
    for case .sends(let own) in vector.endings { sends += own }
    if let put = vector.action.put { sends.append(put) }
    return sends.map {
      EvaluatorSend(
        pipe: topology.pipes[$0.pipe].name, event: topology.pipes[$0.pipe].events[$0.event])
    }
  }

  /// Returns the state of a node, or `nil` if there is no node with this name.
  package func state(of node: String, in state: State) -> JSONValue? {
    topology.node(named: node).map {
      topology.nodes[$0].state(state.locals[topology.nodes[$0].component])
    }
  }

  /// Returns the contents of a pipe, the next event first.
  package func contents(of pipe: String, in state: State) -> [JSONValue] {
    guard let place = topology.pipe(named: pipe) else { return [] }
    let pipe = topology.pipes[place]
    let queued = search.model.contents(of: pipe.component, in: state.locals[pipe.component])
    return (queued ?? []).map { pipe.events[$0] }
  }
}

// Exports of a searched topology, for people and other tools.
extension TopologyModel {
  /// Returns all states and steps, or `nil` if there are too many to draw.
  func graph(of model: ExplorationModel) -> ExploredGraph? {
    var numbers: [[Int]: Int] = [model.initialState: 0]
    var states = [model.initialState]
    var steps: [ExploredGraph.Step] = []
    var next = 0
    while next < states.count {
      for (vector, target) in model.steps(from: states[next]) {
        if numbers[target] == nil {
          guard states.count < ExploredGraph.limit else { return nil }
          numbers[target] = states.count
          states.append(target)
        }
        guard let number = numbers[target] else { continue }
        let step = ExploredGraph.Step(
          source: next, target: number, label: label(of: vectors[vector].action))
        if !steps.contains(step) { steps.append(step) }
      }
      next += 1
    }
    return ExploredGraph(states: states.map { lines(of: $0, model) }, steps: steps)
  }

  /// Returns the model in Promela, with the names of nodes and pipes.
  func promela(of model: ExplorationModel) -> String {
    let names = nodes.map(\.name) + pipes.map(\.name)
    return model.promela(
      // The number distinguishes names that differ only in replaced characters.
      componentNames: names.enumerated().map { "c\($0)_\(Self.identifier($1))" },
      vectorNames: vectors.map { label(of: $0.action) })
  }

  private func lines(of state: [Int], _ model: ExplorationModel) -> [String] {
    nodes.map { "\($0.name): \($0.state(state[$0.component]).caseText)" }
      + pipes.compactMap { pipe in
        let queued = model.contents(of: pipe.component, in: state[pipe.component]) ?? []
        guard !queued.isEmpty else { return nil }
        return "\(pipe.name): "
          + queued.map { pipe.events[$0].caseText }.joined(separator: ", ")
      }
  }

  private func label(of action: ExploredAction) -> String {
    if let effect = action.endingEffect { return "\(action.owner): \(effect) ends" }
    let event = "\(action.owner): \(action.event.caseText)"
    return action.isFromOutside ? event + " (outside)" : event
  }

  private static func identifier(_ name: String) -> String {
    String(
      name.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
  }
}
