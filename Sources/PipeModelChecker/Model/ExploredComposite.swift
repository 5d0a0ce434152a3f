import PipeMachines
import PipeNode
import PipeTopology
import PipeWire

/// A composite with outbound pipes, or with states that the `explore` section refers to.
///
/// It numbers the visited combinations of its nodes' configurations. In the search, the composite
/// moves together with its nodes; in a run, its coordinator follows their steps.
final class ExploredComposite {
  let name: String
  let component: Int
  /// The indices of its nodes in the topology.
  let nodes: [Int]
  private let plan: CompositePlan
  private let rules: [(pipe: String, rule: NodeConfiguration.Rule)]
  private let projections: [String: CompositeStates.Projection]
  private var states: [Int: JSONValue] = [:]
  private(set) var combinations: [[Int]] = []
  private var numbers: [[Int]: Int] = [:]

  /// - Parameter projection: Computes the composite's state from the states of its nodes; `nil` for
  ///   their tuple.
  init(
    _ plan: CompositePlan, component: Int, nodes: [Int], pipes: [PipeSpecification],
    projection: CompositeStates.Projection?
  ) {
    self.plan = plan
    name = plan.name
    self.component = component
    self.nodes = nodes
    rules = pipes.compactMap { pipe in
      pipe.send.map {
        (
          pipe.name,
          NodeConfiguration.Rule(
            when: pipe.when, send: $0, composite: plan.name, states: pipe.whenStates)
        )
      }
    }
    projections = projection.map { [plan.name: $0] } ?? [:]
  }

  /// Returns whether one of the given nodes belongs to the composite.
  func moves(with names: [String], in model: TopologyModel) -> Bool {
    nodes.contains { names.contains(model.nodes[$0].name) }
  }

  /// Returns the number of a combination, and whether it is new.
  func number(of combination: [Int]) -> (number: Int, isNew: Bool) {
    if let known = numbers[combination] { return (known, false) }
    numbers[combination] = combinations.count
    combinations.append(combination)
    return (combinations.count - 1, true)
  }

  /// Returns the composite's state in a combination; `nil` if it has no projection.
  /// - Parameter node: Returns the state of a node, given its index and the number of its
  ///   configuration.
  /// - Throws: An error if the states of the nodes cannot be projected.
  func state(
    _ number: Int, _ node: (_ index: Int, _ configuration: Int) -> JSONValue
  ) throws -> JSONValue? {
    if let known = states[number] { return known }
    guard let projection = projections[name] else { return nil }
    let state = try projection(zip(nodes, combinations[number]).map(node))
    states[number] = state
    return state
  }

  /// Returns the events that the composite's rules send when nodes move, as its coordinator would
  /// send them.
  /// - Parameters:
  ///   - before: The states of its nodes before the step; `nil` at the start.
  ///   - movers: The names of the nodes that move.
  /// - Throws: An error if the states of the nodes cannot be projected.
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
        ($0, CompositeSteps.Node(state: $1.bytes, passed: .zero))
      })
  }
}
