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
  package enum Failure: Error, Hashable, Sendable {
    case unknownNode(known: [String])
    /// The node is constant.
    case noMachine
    case evaluator(EvaluatorError)
  }

  /// The limits of the search.
  package struct Limits: Hashable, Sendable {
    /// The number of different states, including their values.
    package var states = 400
    /// The number of values of one event.
    package var values = 24
    /// The time limit for one answer.
    package var answerTimeout: Duration = .seconds(5)
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

  package func chart(of name: String) throws(Failure) -> StateChart {
    guard let node = loaded.topology.nodes.first(where: { $0.name == name }) else {
      throw .unknownNode(known: loaded.topology.nodes.map(\.name))
    }
    guard node.constant == nil, let machine = node.machine else { throw .noMachine }
    do {
      let evaluator = try ProgramEvaluators(loaded, answerTimeout: limits.answerTimeout).evaluator(
        of: node)
      let opening = try evaluator.open(
        name, machine: machine, parameters: node.parameters, outs: [])
      var seen = ObservedSteps(node: name, machine: machine, loaded.descriptions[name])
      search(evaluator, opening, &seen)
      return seen.chart
    } catch {
      throw .evaluator(error)
    }
  }

  private func search(
    _ evaluator: ProgramEvaluator, _ opening: EvaluatorOpening, _ seen: inout ObservedSteps
  ) {
    var inputs: [(event: String, input: EvaluatorInput)] = []
    var values = EventValues(loaded.topology.explore ?? ExploreSection())
    for (event, fields) in opening.events.sorted(by: { $0.key < $1.key }) {
      let all = values.events(EventPattern(event), of: seen.node, fields)
      if all.isEmpty { seen.untried.append(event) }
      if all.count > limits.values { seen.isTruncated = true }
      if !all.isEmpty, all.count <= limits.values, fields.allSatisfy(\.isComplete) {
        seen.completeEvents.insert(event)
      }
      inputs += all.prefix(limits.values).map { (event, .take(event: $0)) }
    }
    let end = ContinuousClock.now + limits.time
    seen.start(in: opening.configuration.state)
    exploreStates(opening.configuration.state, inputs, evaluator, &seen, until: end)
    // Unreached states are evaluated too, with made-up values: the chart draws their transitions as
    // dotted lines.
    for state in seen.unreachedStates { exploreStates(state, inputs, evaluator, &seen, until: end) }
  }

  /// Explores the states that are reachable from a state, as long as there are new ones.
  private func exploreStates(
    _ first: JSONValue, _ inputs: [(event: String, input: EvaluatorInput)],
    _ evaluator: ProgramEvaluator,
    _ seen: inout ObservedSteps, until end: ContinuousClock.Instant
  ) {
    guard seen.enter(first) else { return }
    var waiting = [first]
    var next = 0
    while next < waiting.count {
      guard ContinuousClock.now < end else {
        seen.isTruncated = true
        return
      }
      let state = waiting[next]
      next += 1
      // Inputs that crashed or hung the program are not repeated.
      let pendingInputs = inputs.filter { !seen.isUnanswered($0.event, in: state) }
      // Effects are ignored: the events that they emit are tried like any other event.
      let replies = evaluator.row(
        seen.node, EvaluatorConfiguration(state: state), pendingInputs.map(\.input))
      for ((event, _), reply) in zip(pendingInputs, replies) {
        guard let target = seen.take(reply, to: event, in: state) else { continue }
        guard seen.evaluatedStates.count < limits.states else {
          if !seen.evaluatedStates.contains(target) { seen.isTruncated = true }
          continue
        }
        if seen.enter(target) { waiting.append(target) }
      }
    }
  }
}
