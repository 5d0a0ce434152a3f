import PipeMachines
import PipeTopology
import PipeWire

/// A topology after a search. A caller can walk step by step through the topology's states.
package final class ExploredTopology {
  /// A state of the topology: the configurations of all nodes and the contents of all pipes.
  package struct State: Hashable, Sendable {
    fileprivate let localStates: [Int]
  }

  /// A step that is enabled in a state.
  package struct Step: Sendable {
    /// The node or the composite that receives the event.
    package let owner: String
    package let event: JSONValue
    package let origin: ScenarioStep.Origin
    /// Whether the event is refused and discarded.
    package let isRefused: Bool
    /// The events that the step sends into pipes. Events for the same pipe are in the order of
    /// sending.
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

  package var initialState: State { State(localStates: search.model.initialState) }

  /// Returns whether the search visited a state.
  package func hasVisited(_ state: State) -> Bool { search.hasVisited(state.localStates) }

  /// Returns the steps that are enabled in a state.
  package func steps(from state: State) -> [Step] {
    search.model.steps(from: state.localStates).map { number, target in
      let vector = topology.vectors[number]
      return Step(
        owner: vector.action.owner, event: vector.action.event,
        origin: topology.origin(of: vector.action),
        isRefused: vector.endings.contains(.refused), sends: sends(of: vector),
        target: State(localStates: target))
    }
  }

  private func sends(of vector: TopologyModel.Vector) -> [EvaluatorSend] {
    var sends: [ExploredSend] = []
    for case .sends(let own) in vector.endings { sends += own }
    if let put = vector.action.putEvent { sends.append(put) }
    return sends.map {
      EvaluatorSend(
        pipe: topology.pipes[$0.pipeIndex].name,
        event: topology.pipes[$0.pipeIndex].events[$0.eventNumber])
    }
  }

  /// Returns the state of a node; `nil` if there is no node with this name.
  package func state(of node: String, in state: State) -> JSONValue? {
    topology.node(named: node).map {
      topology.nodes[$0].state(state.localStates[topology.nodes[$0].component])
    }
  }

  /// Returns the events in a pipe, in the order in which the receiver gets them.
  package func contents(of pipe: String, in state: State) -> [JSONValue] {
    guard let place = topology.pipe(named: pipe) else { return [] }
    let pipe = topology.pipes[place]
    let queued = search.model.contents(of: pipe.component, in: state.localStates[pipe.component])
    return (queued ?? []).map { pipe.events[$0] }
  }
}

// Exports of a searched topology as a graph or as a Promela model.
extension TopologyModel {
  /// Returns the graph of all states and steps; `nil` if there are too many states to draw.
  func graph(of model: ExplorationModel) -> ExploredGraph? {
    var numbers: [[Int]: Int] = [model.initialState: 0]
    var states = [model.initialState]
    var steps: [ExploredGraph.Step] = []
    var next = 0
    while next < states.count {
      for (vector, target) in model.steps(from: states[next]) {
        if numbers[target] == nil {
          guard states.count < ExploredGraph.maximumStateCount else { return nil }
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
      // The number makes identifiers unique: two names may differ only in characters that
      // `identifier` replaces.
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
