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

// A topology that was searched, for people and for other tools.
extension TopologyModel {
  /// All states and steps; `nil` where they are more than can be drawn.
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

  /// The tables in Promela, with the names of nodes and pipes.
  func promela(of model: ExplorationModel) -> String {
    let names = nodes.map(\.name) + pipes.map(\.name)
    return model.promela(
      // The number keeps names apart that are alike without their signs.
      componentNames: names.enumerated().map { "c\($0)_\(Self.identifier($1))" },
      vectorNames: vectors.map { label(of: $0.action) })
  }

  private func lines(of state: [Int], _ model: ExplorationModel) -> [String] {
    nodes.map { "\($0.name): \($0.state(state[$0.component]).caseText)" }
      + pipes.compactMap { pipe in
        let held = model.contents(of: pipe.component, in: state[pipe.component]) ?? []
        guard !held.isEmpty else { return nil }
        return "\(pipe.name): "
          + held.map { pipe.events[$0].caseText }.joined(separator: ", ")
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
