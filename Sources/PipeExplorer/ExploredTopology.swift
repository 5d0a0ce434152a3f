import PipeExploration
import PipeMachines
import PipeTopology
import PipeWire

/// A topology that was searched, to be walked through step by step.
package final class ExploredTopology {
  /// Where every node stands, and what every pipe holds.
  package struct State: Hashable, Sendable {
    fileprivate let locals: [Int]
  }

  /// A step that is enabled in a state.
  package struct Step: Sendable {
    /// The node, or the composite, that takes the event.
    package let owner: String
    package let event: JSONValue
    package let origin: ScenarioStep.Origin
    /// Whether the event is refused, and gone by that.
    package let isRefused: Bool
    /// What is put into pipes; what goes into the same pipe is in order.
    package let sends: [OracleSend]
    package let target: State
  }

  package let report: ExplorationReport
  private let topology: TopologyModel
  private let search: PipeExploration.Exploration

  init(
    _ topology: TopologyModel, _ search: consuming PipeExploration.Exploration,
    _ report: ExplorationReport
  ) {
    self.topology = topology
    self.search = search
    self.report = report
  }

  package var first: State { State(locals: search.model.initialState) }

  /// Whether the search has met a state.
  package func hasMet(_ state: State) -> Bool { search.hasMet(state.locals) }

  /// The steps from a state.
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

  private func sends(of vector: TopologyModel.Vector) -> [OracleSend] {
    var sends: [ExploredSend] = []
    for case .sends(let own) in vector.endings { sends += own }
    if let put = vector.action.put { sends.append(put) }
    return sends.map {
      OracleSend(
        pipe: topology.pipes[$0.pipe].name, event: topology.pipes[$0.pipe].events[$0.event])
    }
  }

  /// The state of a node, or `nil` where there is none of this name.
  package func state(of node: String, in state: State) -> JSONValue? {
    topology.node(named: node).map {
      topology.nodes[$0].state(state.locals[topology.nodes[$0].component])
    }
  }

  /// What a pipe holds, the next event first.
  package func contents(of pipe: String, in state: State) -> [JSONValue] {
    guard let place = topology.pipe(named: pipe) else { return [] }
    let pipe = topology.pipes[place]
    let held = search.model.contents(of: pipe.component, in: state.locals[pipe.component])
    return (held ?? []).map { pipe.events[$0] }
  }
}
