import PipeDiagrams
import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// Finds what a machine does in each of its states: its program is asked for single steps, with sample values of
/// its events, from the initial state on.
///
/// No node runs, and no effect of the machine.
package struct StateChartSearch {
  /// Why a node has no chart.
  package enum Trouble: Error, Hashable, Sendable {
    case unknownNode(known: [String])
    /// It is constant.
    case noMachine
    case oracle(OracleTrouble)
  }

  /// What is tried at most.
  package struct Limits: Hashable, Sendable {
    /// Different states, values included.
    package var states = 400
    /// Values of one event.
    package var values = 24
    /// How long one answer may take.
    package var patience: Duration = .seconds(5)
    /// How long all may take.
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
      let oracle = try ProgramOracles(loaded, patience: limits.patience).oracle(of: node)
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
    _ oracle: ProgramOracle, _ opening: OracleOpening, _ seen: inout SeenSteps
  ) {
    var inputs: [(event: String, input: OracleInput)] = []
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
    // What is not met is entered all the same, with made-up values: what it would do is worth a dotted line.
    for state in seen.unmet { follow(state, inputs, oracle, &seen, until: end) }
  }

  /// Goes on from a state as far as there is something new.
  private func follow(
    _ first: JSONValue, _ inputs: [(event: String, input: OracleInput)], _ oracle: ProgramOracle,
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
      // What a program dies of, or hangs at, is not asked for again.
      let asked = inputs.filter { !seen.isUnanswered($0.event, in: state) }
      // Effects are left aside: what they give is tried like any other event.
      let replies = oracle.row(
        seen.node, OracleConfiguration(state: state), asked.map(\.input))
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
