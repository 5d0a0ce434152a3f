import PipeMachines
import PipeNode
import PipeTopology
import PipeWire

/// A composite in a search. Only composites with outbound pipes, or with states in the `explore`
/// section, are explored.
///
/// Each visited combination of the configurations of the composite's nodes has a number. In the
/// search, the composite moves together with its nodes. In a run, the coordinator follows the steps
/// of the nodes.
final class ExploredComposite {
  let name: String
  let component: Int
  /// The indices of the composite's nodes in the topology.
  let nodeIndices: [Int]
  private let plan: CompositePlan
  private let rules: [(pipe: String, rule: NodeConfiguration.Rule)]
  private let projections: [String: CompositeStates.Projection]
  private var statesByNumber: [Int: JSONValue] = [:]
  private(set) var combinations: [[Int]] = []
  private var numbersByCombination: [[Int]: Int] = [:]

  /// - Parameter projection: A closure that computes the composite's state from the states of the
  ///   nodes; `nil` if the composite has no projection.
  init(
    _ plan: CompositePlan, component: Int, nodes: [Int], pipes: [PipeSpecification],
    projection: CompositeStates.Projection?
  ) {
    self.plan = plan
    name = plan.name
    self.component = component
    self.nodeIndices = nodes
    rules = pipes.compactMap { pipe in
      pipe.eventTemplate.map {
        (
          pipe.name,
          NodeConfiguration.Rule(
            when: pipe.enteredState, send: $0, composite: plan.name,
            states: pipe.enteredStatesByNode)
        )
      }
    }
    projections = projection.map { [plan.name: $0] } ?? [:]
  }

  /// Returns whether one of the given nodes belongs to the composite.
  func moves(with names: [String], in model: TopologyModel) -> Bool {
    nodeIndices.contains { names.contains(model.nodes[$0].name) }
  }

  /// Returns the number of a combination of configurations, and whether the combination is new.
  /// Adds a new combination.
  func number(of combination: [Int]) -> (number: Int, isNew: Bool) {
    if let known = numbersByCombination[combination] { return (known, false) }
    numbersByCombination[combination] = combinations.count
    combinations.append(combination)
    return (combinations.count - 1, true)
  }

  /// Returns the composite's state in the combination with this number; `nil` if the composite has
  /// no projection.
  /// - Parameter node: A closure that returns the state of the node with this index, in the
  ///   configuration with this number.
  /// - Throws: An error if the projection of the nodes' states fails.
  func state(
    _ number: Int, _ node: (_ index: Int, _ configuration: Int) -> JSONValue
  ) throws -> JSONValue? {
    if let known = statesByNumber[number] { return known }
    guard let projection = projections[name] else { return nil }
    let state = try projection(zip(nodeIndices, combinations[number]).map(node))
    statesByNumber[number] = state
    return state
  }

  /// Returns the events that the composite's rules send after a step of its nodes. The coordinator
  /// sends the same events in a run.
  /// - Parameters:
  ///   - before: The nodes' states before the step; `nil` at the start.
  ///   - movers: The names of the nodes that take the step.
  /// - Throws: An error if the projection of the nodes' states fails.
  func sends(
    from before: [JSONValue]?, to after: [JSONValue], movers: [String]
  ) throws -> [EvaluatorSend] {
    var rules = try CompositeRules(
      [plan], rules: self.rules, projections: projections, nodes: before.map(steps) ?? [:])
    let step = CompositeSteps.Step(
      reported: Dictionary(
        uniqueKeysWithValues: movers.map { name in
          let index = plan.nodes.firstIndex(of: name) ?? 0
          let reported = StepReport(.step, state: after[index].bytes)
          return (name, CompositeSteps.Report(reported, index: 0))
        }), transaction: nil, isEntry: true)
    var failure: (any Error)?
    let events = rules.take(step, steps(after)) { failure = $1 }
    if let failure { throw failure }
    return try events.map {
      EvaluatorSend(pipe: $0.pipe, event: try JSONValue(parsing: $0.event))
    }
  }

  private func steps(_ states: [JSONValue]) -> [String: CompositeSteps.Node] {
    Dictionary(
      uniqueKeysWithValues: zip(plan.nodes, states).map {
        ($0, CompositeSteps.Node(state: $1.bytes, completeThrough: .zero))
      })
  }
}
