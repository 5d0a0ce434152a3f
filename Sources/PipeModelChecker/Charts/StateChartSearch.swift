import PipeDiagrams
import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// A search for the transitions of a machine in each of its states. The result is a state chart.
///
/// The machine's program evaluates single steps, starting from the initial state, with sample
/// values of the machine's events. No node and no effect of the machine runs.
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
    /// The maximum number of states. States with different values count separately.
    package var maximumStateCount = 400
    /// The maximum number of values to try for one event.
    package var maximumValueCount = 24
    /// The time limit for one answer.
    package var answerTimeout: Duration = .seconds(5)
    /// The time limit for the whole search.
    package var searchTimeLimit: Duration = .seconds(5)

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
      let opening = try evaluator.openNode(
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
      if all.isEmpty { seen.untriedEvents.append(event) }
      if all.count > limits.maximumValueCount { seen.isTruncated = true }
      if !all.isEmpty, all.count <= limits.maximumValueCount, fields.allSatisfy(\.isComplete) {
        seen.completeEvents.insert(event)
      }
      inputs += all.prefix(limits.maximumValueCount).map { (event, .take(event: $0)) }
    }
    if opening.hasTimers == true {
      inputs.append((TransitionCounts.timerEventName, .fire))
      seen.completeEvents.insert(TransitionCounts.timerEventName)
    }
    let end = ContinuousClock.now + limits.searchTimeLimit
    seen.start(in: opening.configuration.state)
    exploreStates(opening.configuration.state, inputs, evaluator, &seen, until: end)
    // States that no step has reached are also evaluated, with sample values. The chart draws their
    // transitions as dotted lines.
    for state in seen.unreachedStates { exploreStates(state, inputs, evaluator, &seen, until: end) }
  }

  /// Explores the states that are reachable from a state, until there are no new states or a limit
  /// is reached.
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
      // Skips an event if the program has already failed to answer for this event in a state with
      // the same name.
      let pendingInputs = inputs.filter { !seen.isUnanswered($0.event, in: state) }
      // Effects do not run. The inputs include the events that effects would emit.
      let replies = evaluator.evaluateRow(
        seen.node, EvaluatorConfiguration(state: state), pendingInputs.map(\.input))
      for ((event, _), reply) in zip(pendingInputs, replies) {
        guard let target = seen.take(reply, to: event, in: state) else { continue }
        guard seen.evaluatedStates.count < limits.maximumStateCount else {
          if !seen.evaluatedStates.contains(target) { seen.isTruncated = true }
          continue
        }
        if seen.enter(target) { waiting.append(target) }
      }
    }
  }
}
