import PipeRuntime
import NumberMachines

/// Compares the states of nodes with their expected states.
struct Comparison: Equatable {
  private(set) var lost = 0
  private(set) var repeated = 0
  private(set) var reordered = 0
  /// A description of each difference, by node and route.
  private(set) var differences: [String] = []
  /// Whether no event is in flight.
  private(set) var isQuiet = true
  /// The count of numbers that have arrived at sinks.
  private(set) var arrived = 0

  var isEqual: Bool { differences.isEmpty }

  init(
    _ plan: SoakPlan, _ reference: Reference, _ directory: TopologyDirectory,
    _ durability: Durability
  ) {
    for node in plan.nodes {
      guard let expected = reference.nodes[node.name] else { continue }
      compare(node, expected, directory[node: node.name], durability)
    }
  }

  private mutating func compare(
    _ node: SoakPlan.Node, _ expected: Reference.Node, _ information: NodeInformation?,
    _ durability: Durability
  ) {
    guard let information, information.isRunning, let status = information.status,
      let state = status.state
    else {
      isQuiet = false
      differences.append("node '\(node.name)' is not running: \(information?.phase ?? "unknown")")
      return
    }
    if !status.outs.allSatisfy({ $0.applied == $0.events && $0.waiting == 0 })
      || !status.ins.allSatisfy({ $0.applied == $0.events && $0.waiting == 0 })
      || status.effects > 0
    {
      isQuiet = false
    }
    let (found, wanted) = (Self.tallies(in: state), Self.tallies(in: expected.state))
    if node.kind == .sink { arrived += found?.total ?? 0 }
    let before = differences.count
    for (route, tally) in wanted?.routes.sorted(by: { $0.key < $1.key }) ?? [] {
      compare(found?.routes[route] ?? .none, tally, route, node)
    }
    if before == differences.count, !Self.areEqual(state, expected.state, wanted) {
      differences.append(
        "node '\(node.name)' is in state \(state.text), which is to be \(expected.state.text)")
    }
    let deadLetters =
      durability == .volatile
      ? min(expected.deadLetters, DeadLetter.maximumInMemoryCount) : expected.deadLetters
    if status.deadLetters != UInt64(deadLetters) {
      differences.append(
        "node '\(node.name)' has \(status.deadLetters) dead letters, which are to be \(deadLetters)"
      )
    }
  }

  private mutating func compare(
    _ found: Tallies.Tally, _ wanted: Tallies.Tally, _ route: String, _ node: SoakPlan.Node
  ) {
    guard found != wanted else { return }
    // A late number either fills an earlier gap, or repeats an earlier number.
    let late = min(found.skipped, found.late)
    let doubled = found.late - late
    let missing = max(0, wanted.count - (found.count - doubled))
    if node.kind == .sink || node.kind == .source {
      reordered += late
      repeated += doubled
      lost += missing
    }
    differences.append(
      "node '\(node.name)', route '\(route)': \(found.count) of \(wanted.count) numbers, "
        + "\(missing) missing, \(doubled) repeated, \(late) late"
        + (found.firstError.map { "; first \($0)" } ?? ""))
  }

  /// Returns whether two states of a node are equal.
  ///
  /// If several routes end at the node, ignores the last number, because numbers of different
  /// routes arrive in any order.
  private static func areEqual(_ left: JSONValue, _ right: JSONValue, _ tallies: Tallies?) -> Bool {
    guard (tallies?.routes.count ?? 0) > 1, left.caseName == right.caseName,
      var own = left.caseMembers, var other = right.caseMembers
    else { return left == right }
    for name in ["route", "n"] {
      own[name] = nil
      other[name] = nil
    }
    return own == other
  }

  private static func tallies(in state: JSONValue) -> Tallies? {
    let members = state.caseMembers
    guard let value: JSONValue = members?["tallies"] ?? members?["orders"] else { return nil }
    return try? value.decode()
  }
}
