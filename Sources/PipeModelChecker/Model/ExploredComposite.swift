import PipeMachines
import PipeNode
import PipeTopology
import PipeWire

/// A composite from whose states pipes lead, or that properties speak of: the combinations of its nodes'
/// configurations that were met, each with a number.
///
/// It moves at once with its nodes, where a coordinator hears of their steps.
final class ExploredComposite {
  let name: String
  let component: Int
  /// Its nodes, by their places among those of the topology.
  let nodes: [Int]
  private let plan: CompositePlan
  private let rules: [(pipe: String, rule: NodeConfiguration.Rule)]
  private let projections: [String: CompositeStates.Projection]
  private var states: [Int: JSONValue] = [:]
  private(set) var combinations: [[Int]] = []
  private var numbers: [[Int]: Int] = [:]

  /// - Parameter projection: Makes its state of those of its nodes; `nil` for the tuple of these.
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

  /// Whether one of some nodes is one of its own.
  func moves(with names: [String], in model: TopologyModel) -> Bool {
    nodes.contains { names.contains(model.nodes[$0].name) }
  }

  /// The number of a combination, and whether it is new.
  func number(of combination: [Int]) -> (number: Int, isNew: Bool) {
    if let known = numbers[combination] { return (known, false) }
    numbers[combination] = combinations.count
    combinations.append(combination)
    return (combinations.count - 1, true)
  }

  /// Its state in a combination; `nil` where it has no projection.
  /// - Parameter node: Returns the state of a node, by its place and the number of its configuration.
  /// - Throws: Why no state can be made of those of the nodes.
  func state(
    _ number: Int, _ node: (_ place: Int, _ configuration: Int) -> JSONValue
  ) throws -> JSONValue? {
    if let known = states[number] { return known }
    guard let projection = projections[name] else { return nil }
    let state = try projection(zip(nodes, combinations[number]).map(node))
    states[number] = state
    return state
  }

  /// What pipes are sent where nodes move, by the rules that a coordinator has.
  /// - Parameters:
  ///   - before: The states of its nodes; `nil` at the start.
  ///   - movers: The names of those that move.
  /// - Throws: Why no state can be made of those of the nodes.
  func sends(
    from before: [JSONValue]?, to after: [JSONValue], movers: [String]
  ) throws -> [OracleSend] {
    var rules = try CompositeRules(
      [plan], rules: self.rules, projections: projections, nodes: before.map(steps) ?? [:])
    let step = CompositeSteps.Step(
      told: Dictionary(
        uniqueKeysWithValues: movers.map { name in
          let place = plan.nodes.firstIndex(of: name) ?? 0
          let told = ToldStep(.step, state: after[place].bytes)
          return (name, CompositeSteps.Told(told, place: 0))
        }), transaction: nil, isEntry: true)
    var failure: (any Error)?
    let events = rules.take(step, steps(after)) { failure = $1 }
    if let failure { throw failure }
    return try events.map {
      OracleSend(pipe: $0.pipe, event: try JSONValue(parsing: $0.event))
    }
  }

  private func steps(_ states: [JSONValue]) -> [String: CompositeSteps.Node] {
    Dictionary(
      uniqueKeysWithValues: zip(plan.nodes, states).map {
        ($0, CompositeSteps.Node(state: $1.bytes, passed: .zero))
      })
  }
}
