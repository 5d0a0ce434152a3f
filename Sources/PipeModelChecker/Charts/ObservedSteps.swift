import PipeDiagrams
import PipeMachines
import PipeWire

/// The observed steps of a machine, grouped by the names of states and events.
struct ObservedSteps {
  private struct StateEventPair: Hashable {
    let state: String
    let event: String
  }

  /// The outcomes for one pair of a state name and an event name. States and events with different
  /// values, but the same names, share a pair.
  private struct Outcomes {
    var targetStates: [String] = []
    var externalCount = 0
    /// The number of internal transitions.
    var internalCount = 0
    var ignoredCount = 0
    var refusedByGuard = 0
    var withoutTransition = 0
    var isAsynchronous = false
    var isUnanswered = false
    /// The durations of the timers that have fired.
    var delays: [String] = []

    /// The number of target states, plus one if there are internal transitions, and one if there
    /// are ignored events.
    var outcomeCount: Int {
      targetStates.count + (internalCount > 0 ? 1 : 0) + (ignoredCount > 0 ? 1 : 0)
    }
  }

  let node: String
  private let machine: String
  private let description: MachineDescription?
  private var initialState: String?
  private var outcomesByPair: [StateEventPair: Outcomes] = [:]
  private var evaluatedPairs: [StateEventPair] = []
  /// The names of the states that observed steps reach from the initial state.
  private var reachedStates: [String] = []
  /// The states that were evaluated so far.
  private(set) var evaluatedStates: Set<JSONValue> = []
  /// Whether the states that are evaluated now are synthetic. No observed step has reached a
  /// synthetic state, so its fields have sample values.
  private var isSynthetic = false
  /// The names of events that were not tried, because there are no values for their fields.
  var untriedEvents: [String] = []
  /// The names of events that were tried with all their possible values.
  var completeEvents: Set<String> = []
  /// Whether a limit prevented the search from trying some states or values.
  var isTruncated = false

  init(node: String, machine: String, _ description: MachineDescription?) {
    self.node = node
    self.machine = machine
    self.description = description
  }

  mutating func start(in state: JSONValue) {
    initialState = Self.name(of: state, description)
    reach(initialState ?? "")
  }

  /// Returns the name of a state in a state chart: the name of its case. For a struct, all values
  /// count as one state, with the name `state`.
  static func name(of state: JSONValue, _ description: MachineDescription?) -> String {
    if description?.stateFields != nil { return "state" }
    return state.caseName ?? "state"
  }

  /// Records that a state is evaluated.
  /// - Returns: Whether the state was not evaluated before.
  mutating func enter(_ state: JSONValue) -> Bool { evaluatedStates.insert(state).inserted }

  /// One synthetic state, with sample values, for each state name that no observed step has
  /// reached. A state is omitted if one of its fields has a type without a sample value.
  ///
  /// Reading this property has a side effect: replies recorded later count as replies in synthetic
  /// states.
  var unreachedStates: [JSONValue] {
    mutating get {
      isSynthetic = true
      guard let description, description.stateFields == nil else { return [] }
      return description.states.filter { !reachedStates.contains($0.name) }.compactMap { state in
        var fields: [String: JSONValue] = [:]
        for field in state.fields where !field.type.hasPrefix("Optional<") {
          guard let value = Self.sampleValue(of: field.type) else { return nil }
          fields[field.name] = value
        }
        return state.fields.isEmpty ? .string(state.name) : [state.name: .object(fields)]
      }
    }
  }

  /// Returns a sample value of a common type; `nil` for other types.
  private static func sampleValue(of type: String) -> JSONValue? {
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
    if !reachedStates.contains(state) { reachedStates.append(state) }
  }

  /// Returns whether the evaluator failed to answer for an event with this name, in a state with
  /// the same name as `state`.
  func isUnanswered(_ event: String, in state: JSONValue) -> Bool {
    let pair = StateEventPair(state: Self.name(of: state, description), event: event)
    return outcomesByPair[pair]?.isUnanswered == true
  }

  /// Records the evaluator's reply to an event.
  /// - Returns: The next state; `nil` if the event caused no step, or if the step is impure.
  mutating func take(
    _ reply: ProgramEvaluator.Reply, to event: String, in state: JSONValue
  ) -> JSONValue? {
    let pair = StateEventPair(state: Self.name(of: state, description), event: event)
    // The machine may be unable to reach a synthetic state. So an invalid reply in such a state is
    // not an error, and is not recorded.
    if isSynthetic, case .answer(.invalid) = reply { return nil }
    if outcomesByPair[pair] == nil { evaluatedPairs.append(pair) }
    var found = outcomesByPair[pair] ?? Outcomes()
    defer { outcomesByPair[pair] = found }
    switch reply {
    case .answer(.accepted(let next, _, .internal)):
      found.internalCount += 1
      return next.state
    case .answer(.accepted(_, _, .ignored)): found.ignoredCount += 1
    case .answer(.accepted(let next, _, _)):
      let target = Self.name(of: next.state, description)
      found.externalCount += 1
      if !found.targetStates.contains(target) { found.targetStates.append(target) }
      reach(target)
      return next.state
    case .answer(.fired(let delay, let next, _)):
      let target = Self.name(of: next.state, description)
      found.externalCount += 1
      if !found.targetStates.contains(target) { found.targetStates.append(target) }
      if !found.delays.contains(delay) { found.delays.append(delay) }
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
      .answer(.replaying), .answer(.replayed), .evaluatorError:
      found.isUnanswered = true
    case .impure(let answers):
      for case .accepted(let next, _, _) in answers {
        let target = Self.name(of: next.state, description)
        if !found.targetStates.contains(target) { found.targetStates.append(target) }
        reach(target)
      }
      found.externalCount += 1
      found.withoutTransition += 1
    }
    return nil
  }

  // MARK: Making the state chart

  var chart: StateChart {
    var chart = StateChart(name: node, machine: machine, initial: initialState)
    let cases =
      description?.stateFields.map { [CaseDescription(name: "state", fields: $0)] }
      ?? description?.states ?? []
    let names = cases.map(\.name)
    chart.states = cases.map { state in
      StateChart.State(
        state.name, fields: state.fields.map(Self.text(of:)),
        isReached: reachedStates.contains(state.name))
    }
    chart.states += reachedStates.filter { !names.contains($0) }.map { StateChart.State($0) }
    let fixed = Set(cases.filter(\.fields.isEmpty).map(\.name))
    chart.transitions = evaluatedPairs.flatMap { pair in
      transitions(pair, isFixed: fixed.contains(pair.state))
    }
    for event in untriedEvents {
      chart.transitions += reachedStates.map {
        StateChart.Transition($0, event, nil, uncertaintyReason: .noSample)
      }
    }
    if !untriedEvents.isEmpty {
      chart.notes.append(
        "not tried, since values are missing: \(untriedEvents.joined(separator: ", ")); add values in "
          + "the topology file under 'explore: values', as '\(node).\(untriedEvents[0])'")
    }
    if isTruncated { chart.notes.append("the search reached a limit and is incomplete") }
    if reachedStates.count < chart.states.count {
      chart.notes.append("'not met': no tried event leads to this state")
    }
    return chart
  }

  private func transitions(_ pair: StateEventPair, isFixed: Bool) -> [StateChart.Transition] {
    guard let seen = outcomesByPair[pair] else { return [] }
    func transition(
      _ target: String?, _ doubt: StateChart.UncertaintyReason?, _ kind: TransitionKind = .external
    ) -> StateChart.Transition {
      let event =
        pair.event == TransitionCounts.timerEventName ? Self.label(of: seen.delays) : pair.event
      return StateChart.Transition(
        pair.state, event, target, kind, uncertaintyReason: doubt,
        isGuarded: seen.refusedByGuard > 0)
    }
    var result: [StateChart.Transition] = []
    let hasSeveralOutcomes =
      seen.outcomeCount > 1 || seen.refusedByGuard + seen.withoutTransition > 0
    let isExhaustive = isFixed && completeEvents.contains(pair.event)
    func uncertaintyReason(_ count: Int) -> StateChart.UncertaintyReason? {
      hasSeveralOutcomes
        ? .dependsOnValues
        : count == 1 && !isExhaustive || !reachedStates.contains(pair.state) ? .seenOnce : nil
    }
    for target in seen.targetStates {
      result.append(transition(target, uncertaintyReason(seen.externalCount)))
    }
    if seen.internalCount > 0 {
      result.append(transition(pair.state, uncertaintyReason(seen.internalCount), .internal))
    }
    if seen.ignoredCount > 0 {
      result.append(transition(pair.state, uncertaintyReason(seen.ignoredCount), .ignored))
    }
    if seen.outcomeCount == 0, seen.refusedByGuard > 0 {
      result.append(transition(nil, .dependsOnValues))
    }
    if seen.isAsynchronous { result.append(transition(nil, .asynchronous)) }
    if seen.isUnanswered { result.append(transition(nil, .noAnswer)) }
    return result
  }

  /// Returns the label of a transition that timers trigger, such as `after 30 s`.
  private static func label(of delays: [String]) -> String {
    delays.count == 1 ? "after \(delays[0])" : "after a time that depends on values"
  }

  /// Returns a field as text, such as `persons: Int`; for a field without a label, only the type.
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
