import PipeDiagrams
import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// Finds the transitions of a machine in each of its states, for a state chart.
///
/// The machine's program evaluates single steps from the initial state on, with sample values of
/// its events. No node runs, and no effects of the machine.
package struct StateChartSearch {
  /// The reason why a node has no state chart.
  package enum Trouble: Error, Hashable, Sendable {
    case unknownNode(known: [String])
    /// The node is constant.
    case noMachine
    case oracle(EvaluatorError)
  }

  /// The limits of the search.
  package struct Limits: Hashable, Sendable {
    /// The number of different states, including their values.
    package var states = 400
    /// The number of values of one event.
    package var values = 24
    /// The time limit for one answer.
    package var patience: Duration = .seconds(5)
    /// The time limit for the whole search.
    package var time: Duration = .seconds(5)

    package init() {}
  }

  private let loaded: LoadedTopology
  private let limits: Limits

  package init(_ loaded: LoadedTopology, limits: Limits = Limits()) {
    self.loaded = loaded
    self.limits = limits
  }

  package func chart(of name: String) throws(Trouble) -> StateChart {
    guard let node = loaded.topology.nodes.first(where: { $0.name == name }) else {
      throw .unknownNode(known: loaded.topology.nodes.map(\.name))
    }
    guard node.constant == nil, let machine = node.machine else { throw .noMachine }
    do {
      let oracle = try ProgramEvaluators(loaded, patience: limits.patience).oracle(of: node)
      let opening = try oracle.open(
        name, machine: machine, parameters: node.parameters, outs: [])
      var seen = SeenSteps(node: name, machine: machine, loaded.descriptions[name])
      search(oracle, opening, &seen)
      return seen.chart
    } catch {
      throw .oracle(error)
    }
  }

  private func search(
    _ oracle: ProgramEvaluator, _ opening: EvaluatorOpening, _ seen: inout SeenSteps
  ) {
    var inputs: [(event: String, input: EvaluatorInput)] = []
    var values = EventValues(loaded.topology.explore ?? ExploreSection())
    for (event, fields) in opening.events.sorted(by: { $0.key < $1.key }) {
      let all = values.events(EventPattern(event), of: seen.node, fields)
      if all.isEmpty { seen.untried.append(event) }
      if all.count > limits.values { seen.isCut = true }
      if !all.isEmpty, all.count <= limits.values, fields.allSatisfy(\.isComplete) {
        seen.complete.insert(event)
      }
      inputs += all.prefix(limits.values).map { (event, .take(event: $0)) }
    }
    let end = ContinuousClock.now + limits.time
    seen.start(in: opening.configuration.state)
    follow(opening.configuration.state, inputs, oracle, &seen, until: end)
    // Unreached states are evaluated too, with made-up values: the chart draws their transitions as
    // dotted lines.
    for state in seen.unmet { follow(state, inputs, oracle, &seen, until: end) }
  }

  /// Explores the states that are reachable from a state, as long as there are new ones.
  private func follow(
    _ first: JSONValue, _ inputs: [(event: String, input: EvaluatorInput)],
    _ oracle: ProgramEvaluator,
    _ seen: inout SeenSteps, until end: ContinuousClock.Instant
  ) {
    guard seen.enter(first) else { return }
    var waiting = [first]
    var next = 0
    while next < waiting.count {
      guard ContinuousClock.now < end else {
        seen.isCut = true
        return
      }
      let state = waiting[next]
      next += 1
      // Inputs that crashed or hung the program are not repeated.
      let asked = inputs.filter { !seen.isUnanswered($0.event, in: state) }
      // Effects are ignored: the events that they emit are tried like any other event.
      let replies = oracle.row(
        seen.node, EvaluatorConfiguration(state: state), asked.map(\.input))
      for ((event, _), reply) in zip(asked, replies) {
        guard let target = seen.take(reply, to: event, in: state) else { continue }
        guard seen.entered.count < limits.states else {
          if !seen.entered.contains(target) { seen.isCut = true }
          continue
        }
        if seen.enter(target) { waiting.append(target) }
      }
    }
  }
}
