import PipeMachines
import PipeSupport
import PipeWire

// Checks of the `explore` section against the descriptions of the machines.
extension TopologyChecker {
  mutating func checkExplore() {
    guard let section = topology.explore else { return }
    let path = ["explore"]
    for (owner, patterns) in (section.fromOutside ?? [:]).sorted(by: { $0.key < $1.key }) {
      check(patterns, of: owner, "from_outside", at: path + ["from_outside", owner])
    }
    for (owner, events) in section.values.sorted(by: { $0.key < $1.key }) {
      for (event, fields) in events.sorted(by: { $0.key < $1.key }) {
        check(fields, of: event, owner, at: path + ["values", "\(owner).\(event)"])
      }
    }
    for (node, outputs) in section.effectEvents.sorted(by: { $0.key < $1.key }) {
      for (output, patterns) in outputs.sorted(by: { $0.key < $1.key }) {
        checkOutput(output, of: node, at: path + ["gives", node, output])
        check(patterns.events, of: node, "gives", at: path + ["gives", node, output])
      }
    }
    for (node, fields) in section.foldModuli.sorted(by: { $0.key < $1.key }) {
      for field in fields.keys.sorted() {
        checkFold(field, of: node, at: path + ["fold", node, field])
      }
    }
    for (index, end) in section.allowedEndStates.enumerated() {
      let list = path + ["end", String(index)]
      let isListed = end.states.keys.contains { source.hasValue(at: list + [$0]) }
      check(end, owner: "'explore', 'end'", at: isListed ? list : path + ["end"])
    }
    for property in section.properties {
      check(
        property.states, owner: "property '\(property.name)'",
        at: path + ["properties", property.name, property.demand.rawValue])
    }
  }

  // MARK: Checks of events

  /// Returns the events that a node or a composite accepts; `nil` if they are unknown.
  ///
  /// In the result, `holder` is the name of the machine or the composite for use in messages.
  private func acceptedEvents(of owner: String) -> (events: [CaseDescription], holder: String)? {
    if topology.composite(owner) != nil {
      guard let events = synchronizedEvents(of: owner) else { return nil }
      let own = composites?.composition.machines(of: owner).flatMap { name in
        (composites?.machines[name]?.events ?? []).filter { event in
          composites?.owner(of: event.name, in: owner) == name
        }
      }
      return (events + (own ?? []), "composite '\(owner)'")
    }
    guard let node = topology.node(owner), node.constant == nil, let machine = machine(of: node)
    else { return nil }
    return (machine.events, "machine '\(machine.machine)' of node '\(owner)'")
  }

  private mutating func check(
    _ patterns: [EventPattern], of name: String, _ key: String, at path: [String]
  ) {
    guard let (events, holder) = acceptedEvents(of: name) else { return }
    let owner = "'explore', '\(key)'"
    for (index, pattern) in patterns.enumerated() {
      let itemPath = path + [String(index)]
      guard let event = events.first(where: { $0.name == pattern.event }) else {
        let bare = source.hasValue(at: itemPath + [pattern.event])
        report(
          .unknownEvent,
          at: bare
            ? source.position(ofKey: itemPath + [pattern.event]) : source.position(of: itemPath),
          "\(owner): \(holder) has no event '\(pattern.event)'"
            + Suggestion.among(events.map(\.name), like: pattern.event))
        continue
      }
      check(pattern.fields, of: event, owner, at: itemPath + [pattern.event])
      if key == "from_outside" { checkAcceptance(event.name, by: name, owner, at: itemPath) }
    }
  }

  private mutating func check(
    _ fields: [String: ValueSet], of name: String, _ recipient: String, at path: [String]
  ) {
    guard let (events, holder) = acceptedEvents(of: recipient) else { return }
    let owner = "'explore', 'values'"
    guard let event = events.first(where: { $0.name == name }) else {
      report(
        .unknownEvent, at: source.position(ofKey: path),
        "\(owner): \(holder) has no event '\(name)'"
          + Suggestion.among(events.map(\.name), like: name))
      return
    }
    check(fields, of: event, owner, at: path)
  }

  /// Checks that an event has the given fields, and that their types fit the values.
  private mutating func check(
    _ fields: [String: ValueSet], of event: CaseDescription, _ owner: String, at path: [String]
  ) {
    for (name, set) in fields.sorted(by: { $0.key < $1.key }) {
      guard let field = event.fields.first(where: { $0.name == name }) else {
        report(
          .unknownField, at: source.position(ofKey: path + [name]),
          "\(owner): "
            + CaseMismatch.unknownField(name, of: event).text(noun: "event", owner: owner))
        continue
      }
      let type = SwiftType(field.type)
      let values = set.values
      guard let index = values.firstIndex(where: { !type.canDecode($0) }) else { continue }
      let listed = path + [name, String(index)]
      report(
        .typeMismatch, at: source.hasValue(at: listed) ? listed : path + [name],
        "\(owner): "
          + CaseMismatch.wrongType(field, values[index], of: event).text(
            noun: "event", owner: owner)
      )
    }
  }

  /// Checks that a node accepts an event from outside, and that the event is not a synchronized event.
  private mutating func checkAcceptance(
    _ event: String, by name: String, _ owner: String, at path: [String]
  ) {
    guard let node = topology.node(name), let machine = machine(of: node) else { return }
    if !machine.alphabet.contains(event) {
      report(
        .notInAlphabet, at: path,
        "\(owner): machine '\(machine.machine)' of node '\(name)' does not accept event '\(event)' "
          + "in any state"
          + Suggestion.among(machine.alphabet, like: event, verb: "it accepts"))
    }
    let vectors = composites?.composition.vectors(of: name, event: event) ?? []
    guard !vectors.isEmpty else { return }
    let list = Set(vectors.map(\.composite)).sorted().map { "'\($0)'" }.joined(separator: " or ")
    report(
      .synchronizedEvent, at: path,
      "\(owner): node '\(name)' accepts '\(event)' only as a synchronized event; list the event "
        + "under composite "
        + list)
  }

  // MARK: Checks of outputs and states

  /// Checks that a node's machine has an output with this name. Names of feedbacks are not checked,
  /// since a feedback belongs to a state.
  private mutating func checkOutput(_ name: String, of node: String, at path: [String]) {
    guard let machine = topology.node(node).flatMap(machine(of:)) else { return }
    let outputs = machine.outputs.map(\.name)
    if outputs.contains(name) || name.hasPrefix("feedback") { return }
    report(
      .badValue, at: source.position(ofKey: path),
      "'explore', 'gives': machine '\(machine.machine)' of node '\(node)' has no output '\(name)'"
        + Suggestion.among(outputs, like: name))
  }

  private mutating func checkFold(_ name: String, of node: String, at path: [String]) {
    guard let machine = topology.node(node).flatMap(machine(of:)) else { return }
    let fields = machine.stateFields ?? machine.states.flatMap(\.fields)
    let found = fields.filter { $0.name == name }
    let owner = "'explore', 'fold'"
    if found.isEmpty {
      report(
        .unknownField, at: source.position(ofKey: path),
        "\(owner): no state of machine '\(machine.machine)' of node '\(node)' has a field '\(name)'"
          + Suggestion.among(fields.map(\.name), like: name))
      return
    }
    let other = found.first {
      if case .integer = SwiftType($0.type) { false } else { true }
    }
    guard let other else { return }
    report(
      .typeMismatch, at: source.position(ofKey: path),
      "\(owner): field '\(name)' of node '\(node)' has type \(other.type); only integers can be "
        + "folded")
  }

  private mutating func check(_ combination: StateCombination, owner: String, at path: [String]) {
    for (listed, condition) in combination.states.sorted(by: { $0.key < $1.key }) {
      let itemPath = path + [listed]
      let name = InstanceName(listed)?.node ?? listed
      checkIsSearched(name, owner: owner, at: itemPath)
      checkFolded(condition, of: name, owner: owner, at: itemPath)
      if let composite = topology.composite(name) {
        check(condition, of: composite, owner: owner, at: itemPath)
      } else if let machine = topology.node(name).flatMap(machine(of:)) {
        if let fields = machine.stateFields {
          check(condition, ofStruct: fields, node: name, owner: owner, at: itemPath)
        } else {
          checkCase(
            condition, against: machine.states,
            holder: "machine '\(machine.machine)' of node '\(name)'", owner: owner, at: itemPath)
        }
      }
    }
  }

  /// Checks that a node or a projection has the state that a condition names. Otherwise, the
  /// condition could never hold.
  private mutating func checkCase(
    _ condition: StateCondition, against states: [CaseDescription], holder: String, owner: String,
    at path: [String]
  ) {
    let problems = states.problems(with: condition.state)
    if case .noCase = problems.first {
      report(
        .typeMismatch, at: path,
        "\(owner): " + CaseMismatch.noCase(condition.state).text(noun: "state", owner: holder))
      return
    }
    // A state's name alone matches the state with any values. A condition with fields must list all
    // fields of the state. If a field is misspelled, the missing field is not reported as a second
    // error.
    let isMisspelled = problems.contains {
      if case .unknownField = $0 { true } else { false }
    }
    checkCase(
      condition.state, against: states,
      kind: condition.state.string == nil && !isMisspelled ? .state : .condition,
      holder: holder, owner: owner, at: path)
  }

  /// Rejects conditions on nodes under `any`, whose states are not searched.
  private mutating func checkIsSearched(_ name: String, owner: String, at path: [String]) {
    guard topology.explore?.unevaluatedNodes.contains(name) == true else { return }
    report(
      .badValue, at: source.position(ofKey: path),
      "\(owner): the states of node '\(name)' are not searched, since the node is listed under "
        + "'any'; remove the node from 'any', or remove this condition")
  }

  /// Rejects conditions on folded fields, because a fold merges states with different values of the
  /// field.
  private mutating func checkFolded(
    _ condition: StateCondition, of name: String, owner: String, at path: [String]
  ) {
    guard let fold = topology.explore?.foldModuli[name], case .object(let members) = condition.state
    else { return }
    let cases = members.count == 1 ? condition.state.caseMembers.map { Array($0.keys) } ?? [] : []
    guard let field = (members.keys + cases).sorted().first(where: { fold[$0] != nil }) else {
      return
    }
    report(
      .badValue, at: source.position(ofKey: path),
      "\(owner): 'fold' merges states of node '\(name)' that differ in field '\(field)', so the "
        + "value of the field is unknown; remove the field from this condition, or from 'fold'")
  }

  private mutating func check(
    _ condition: StateCondition, of composite: CompositeSpecification, owner: String,
    at path: [String]
  ) {
    guard let name = composite.projection else {
      report(
        .badValue, at: source.position(ofKey: path),
        "\(owner): composite '\(composite.name)' has no projection, and therefore no state of its "
          + "own; name the states of its nodes, or add a 'projection'")
      return
    }
    guard let program = topology.program(of: composite),
      let projection = descriptions.programs[program]?.composite(name), !projection.states.isEmpty
    else { return }
    checkCase(
      condition, against: projection.states,
      holder: "projection '\(name)' of composite '\(composite.name)'", owner: owner, at: path)
  }

  private mutating func check(
    _ condition: StateCondition, ofStruct fields: [CaseDescription.Field], node: String,
    owner: String, at path: [String]
  ) {
    guard
      let problem = fields.problem(withSome: condition.state, owner: "the state of node '\(node)'")
    else { return }
    guard case .object(let members) = condition.state else {
      report(.typeMismatch, at: path, "\(owner): \(problem)")
      return
    }
    let unknown = members.keys.sorted().first { name in !fields.contains { $0.name == name } }
    if let unknown {
      report(
        .unknownField, at: source.position(ofKey: path + [unknown]),
        "\(owner): the state of node '\(node)' has no field '\(unknown)'"
          + Suggestion.among(fields.map(\.name), like: unknown))
    } else {
      report(.typeMismatch, at: path, "\(owner): \(problem)")
    }
  }
}
