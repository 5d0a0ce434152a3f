import PipeDiagrams
import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// Finds the transitions and synchronized events that the steps of a search cover.
struct CoverageSearch {
  private let topology: TopologyModel
  private var numbersByItem: [CoverageItem: Int] = [:]
  private var knownItems: [[Int]: [Int]] = [:]

  /// The number of steps after which a scenario ends.
  static let scenarioLength = 100

  init(_ topology: TopologyModel) { self.topology = topology }

  /// All items that were found so far.
  var items: Set<CoverageItem> { Set(numbersByItem.keys) }

  /// Returns the numbers of the items that a step covers.
  /// - Parameters:
  ///   - number: The number of the step's vector.
  ///   - state: The state in which the step begins.
  mutating func itemNumbers(ofVector number: Int, in state: [Int]) -> [Int] {
    let vector = topology.vectors[number]
    let movers = vector.action.movers.map { topology.nodes[$0.node] }
    let key = [number] + movers.map { state[$0.component] }
    if let known = knownItems[key] { return known }
    let numbers = items(of: vector, in: state).map { item in
      let number = numbersByItem[item] ?? numbersByItem.count
      numbersByItem[item] = number
      return number
    }
    knownItems[key] = numbers
    return numbers
  }

  private func items(of vector: TopologyModel.Vector, in state: [Int]) -> [CoverageItem] {
    let action = vector.action
    guard let event = action.event.caseName, action.putEvent == nil,
      !vector.endings.contains(.refused)
    else { return [] }
    var items: [CoverageItem] = []
    let owner = InstanceName(action.owner)?.node ?? action.owner
    let isSynchronized = topology.vector(of: event, requestedFrom: owner) != nil
    if isSynchronized { items.append(.synchronized(composite: owner, event: event)) }
    for (index, mover) in action.movers.enumerated() {
      let node = topology.nodes[mover.node]
      let configuration = state[node.component]
      guard case .machine = node.kind else { continue }
      let target: Int
      switch action.outcomes[index][configuration] {
      case .leads(let next, _, _): target = next
      // A synchronized event is a step of each participant, even if the participant ignores it.
      case .ignored(let next) where isSynchronized: target = next
      case .ignored, .refused, .some(.none), nil: continue
      }
      let former =
        node.isCreated(configuration)
        ? node.state(configuration) : node.opening?.configuration.state ?? .null
      items.append(
        topology.transition(of: node, from: former, on: event, to: node.state(target)))
    }
    return items
  }
}

extension TopologyModel {
  /// Returns the transition of a node between two states.
  func transition(
    of node: ExploredNode, from state: JSONValue, on event: String, to next: JSONValue
  ) -> CoverageItem {
    .transition(
      node: node.baseName, from: StateChart.name(of: state, node.description), event: event,
      to: StateChart.name(of: next, node.description))
  }
}

/// The nodes that can take a step of a scenario, and what the step covers.
struct ScenarioMovers {
  /// The nodes whose machines can take a transition.
  var nodes: [String]
  var event: String
  /// The synchronized event that the step covers.
  var synchronizedEvent: CoverageItem?
}

extension ScenarioReplay {
  /// Returns the nodes that can take a transition in a step; `nil` if the step covers nothing.
  func movers(of action: ScenarioStep.Action) -> ScenarioMovers? {
    switch action {
    case .takes(let owner, let event, _):
      let event = event.caseName ?? ""
      if model.node(named: owner) != nil { return movers([owner], event) }
      guard let composite = composite(of: owner)?.name else { return movers([owner], event) }
      guard let vector = model.vector(of: event, requestedFrom: composite) else {
        let node = loaded.conflictClasses.lazy.compactMap { $0[composite] }.first?
          .nodesByOwnEvent[event]
        return node.map { movers([$0], event) }
      }
      return movers(
        vector.participants, event, .synchronized(composite: composite, event: event))
    case .fires(let node, _): return movers([node], TransitionCounts.timerEventName)
    case .ends, .sends, .crash: return nil
    }
  }

  private func movers(
    _ nodes: [String], _ event: String, _ synchronizedEvent: CoverageItem? = nil
  ) -> ScenarioMovers {
    ScenarioMovers(
      nodes: nodes.filter { name in
        guard let number = model.node(named: name), case .machine = model.nodes[number].kind
        else { return false }
        return true
      }, event: event, synchronizedEvent: synchronizedEvent)
  }
}
