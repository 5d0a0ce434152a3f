import PipeDiagrams
import PipeMachines
import PipeWire

/// The observed steps of a machine, grouped by the names of states and events.
struct ObservedSteps {
  private struct StateEventPair: Hashable {
    let state: String
    let event: String
  }

  /// The outcomes of the events with one name in the states with one name.
  private struct Outcomes {
    var targets: [String] = []
    var moved = 0
    var refusedByGuard = 0
    var withoutTransition = 0
    var isAsynchronous = false
    var isUnanswered = false
  }

  let node: String
  private let machine: String
  private let description: MachineDescription?
  private var initial: String?
  private var outcomes: [StateEventPair: Outcomes] = [:]
  private var order: [StateEventPair] = []
  /// The states that are reachable from the initial state by observed steps.
  private var reached: [String] = []
  /// All evaluated states.
  private(set) var evaluatedStates: Set<JSONValue> = []
  /// Whether the states that are evaluated now have made-up values.
  private var isSynthetic = false
  /// The events without any value to try.
  var untried: [String] = []
  /// The events whose values were all tried.
  var completeEvents: Set<String> = []
  /// Whether a limit left states or values untried.
  var isTruncated = false

  init(node: String, machine: String, _ description: MachineDescription?) {
    self.node = node
    self.machine = machine
    self.description = description
  }

  mutating func start(in state: JSONValue) {
    initial = Self.name(of: state, description)
    reach(initial ?? "")
  }

  /// Returns the name of a state in a state chart: the name of its case. A struct is a single state.
  static func name(of state: JSONValue, _ description: MachineDescription?) -> String {
    if description?.stateFields != nil { return "state" }
    return state.caseName ?? "state"
  }

  /// Records that a state is evaluated.
  /// - Returns: Whether the state is new.
  mutating func enter(_ state: JSONValue) -> Bool { evaluatedStates.insert(state).inserted }

  /// The unreached states, with made-up values; states for which no values can be made up are left out.
  var unreachedStates: [JSONValue] {
    mutating get {
      isSynthetic = true
      guard let description, description.stateFields == nil else { return [] }
      return description.states.filter { !reached.contains($0.name) }.compactMap { state in
        var fields: [String: JSONValue] = [:]
        for field in state.fields where !field.type.hasPrefix("Optional<") {
          guard let value = Self.value(of: field.type) else { return nil }
          fields[field.name] = value
        }
        return state.fields.isEmpty ? .string(state.name) : [state.name: .object(fields)]
      }
    }
  }

  /// Returns a value of a common type, or `nil` for other types.
  private static func value(of type: String) -> JSONValue? {
    if type.hasPrefix("Array<") { return [] }
    switch type {
    case "String": return ""
    case "Bool": return false
    case "Double", "Float": return 0
    case _ where type.hasPrefix("Int") || type.hasPrefix("UInt"):
      return type.allSatisfy { $0.isLetter || $0.isNumber } ? 0 : nil
    default: return nil
    }
  }

  private mutating func reach(_ state: String) {
    guard !isSynthetic else { return }
    if !reached.contains(state) { reached.append(state) }
  }

  /// Returns whether an event of that name had no answer in a state of that name.
  func isUnanswered(_ event: String, in state: JSONValue) -> Bool {
    let pair = StateEventPair(state: Self.name(of: state, description), event: event)
    return outcomes[pair]?.isUnanswered == true
  }

  /// Records an answer.
  /// - Returns: The target state of the step.
  mutating func take(
    _ reply: ProgramEvaluator.Reply, to event: String, in state: JSONValue
  ) -> JSONValue? {
    let pair = StateEventPair(state: Self.name(of: state, description), event: event)
    // A made-up state may be invalid.
    if isSynthetic, case .answer(.invalid) = reply { return nil }
    if outcomes[pair] == nil { order.append(pair) }
    var found = outcomes[pair] ?? Outcomes()
    defer { outcomes[pair] = found }
    switch reply {
    case .answer(.accepted(let next, _)):
      let target = Self.name(of: next.state, description)
      found.moved += 1
      if !found.targets.contains(target) { found.targets.append(target) }
      reach(target)
      return next.state
    case .answer(.refused(let refusal, _)):
      if refusal == .noTransition {
        found.withoutTransition += 1
      } else {
        found.refusedByGuard += 1
      }
    case .answer(.undecided): found.isAsynchronous = true
    case .answer(.undecodable), .answer(.invalid), .answer(.opened), .answer(.projected),
      .evaluatorError:
      found.isUnanswered = true
    case .impure(let answers):
      for case .accepted(let next, _) in answers {
        let target = Self.name(of: next.state, description)
        if !found.targets.contains(target) { found.targets.append(target) }
        reach(target)
      }
      found.moved += 1
      found.withoutTransition += 1
    }
    return nil
  }

  // MARK: The chart

  var chart: StateChart {
    var chart = StateChart(name: node, machine: machine, initial: initial)
    let cases =
      description?.stateFields.map { [CaseDescription(name: "state", fields: $0)] }
      ?? description?.states ?? []
    let names = cases.map(\.name)
    chart.states = cases.map { state in
      StateChart.State(
        state.name, fields: state.fields.map(Self.text(of:)),
        isReached: reached.contains(state.name))
    }
    chart.states += reached.filter { !names.contains($0) }.map { StateChart.State($0) }
    let fixed = Set(cases.filter(\.fields.isEmpty).map(\.name))
    chart.transitions = order.flatMap { pair in
      transitions(pair, isFixed: fixed.contains(pair.state))
    }
    for event in untried {
      chart.transitions += reached.map {
        StateChart.Transition($0, event, nil, doubt: .noSample)
      }
    }
    if !untried.isEmpty {
      chart.notes.append(
        "not tried, since values are missing: \(untried.joined(separator: ", ")); add values in "
          + "the topology file under 'explore: values', as '\(node).\(untried[0])'")
    }
    if isTruncated { chart.notes.append("the search reached a limit and is incomplete") }
    if reached.count < chart.states.count {
      chart.notes.append("'not met': no tried event leads to this state")
    }
    return chart
  }

  private func transitions(_ pair: StateEventPair, isFixed: Bool) -> [StateChart.Transition] {
    guard let seen = outcomes[pair] else { return [] }
    func transition(_ target: String?, _ doubt: StateChart.UncertaintyReason?)
      -> StateChart.Transition
    {
      StateChart.Transition(
        pair.state, pair.event, target, doubt: doubt, isGuarded: seen.refusedByGuard > 0)
    }
    var result: [StateChart.Transition] = []
    let hasSeveralOutcomes =
      seen.targets.count > 1 || seen.refusedByGuard + seen.withoutTransition > 0
    let isExhaustive = isFixed && completeEvents.contains(pair.event)
    for target in seen.targets {
      let doubt: StateChart.UncertaintyReason? =
        hasSeveralOutcomes
        ? .dependsOnValues
        : seen.moved == 1 && !isExhaustive || !reached.contains(pair.state) ? .seenOnce : nil
      result.append(transition(target, doubt))
    }
    if seen.targets.isEmpty, seen.refusedByGuard > 0 {
      result.append(transition(nil, .dependsOnValues))
    }
    if seen.isAsynchronous { result.append(transition(nil, .asynchronous)) }
    if seen.isUnanswered { result.append(transition(nil, .noAnswer)) }
    return result
  }

  /// Returns a field as `persons: Int`, or only its type if it has no label.
  private static func text(of field: CaseDescription.Field) -> String {
    field.name.first == "_" && Int(field.name.dropFirst()) != nil
      ? field.type : "\(field.name): \(field.type)"
  }
}

extension StateChart {
  /// Returns the name of a node's state in its state chart.
  package static func name(of state: JSONValue, _ description: MachineDescription?) -> String {
    ObservedSteps.name(of: state, description)
  }
}
