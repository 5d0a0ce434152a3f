import PipeExploration
import PipeMachines
import PipeTopology

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
