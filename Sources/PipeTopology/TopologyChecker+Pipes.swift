import PipeMachines
import PipeSupport
import PipeWire

extension TopologyChecker {
  /// The receiver of a pipe, with the receiver's events. The receiver is a machine, an in-port or a
  /// composite.
  private struct Receiver {
    var holder: String
    var events: [CaseDescription]
    var alphabet: [String]
  }

  mutating func check(_ pipe: PipeSpecification, at path: [String]) {
    let owner = "pipe '\(pipe.name)'"
    checkSynchronized(pipe, at: path)
    let receiver = receiver(of: pipe, owner: owner, at: path)
    let sender = topology.node(pipe.sender).flatMap { $0.constant == nil ? machine(of: $0) : nil }
    switch pipe.source {
    case .port(let name):
      guard let sender else { return }
      guard let port = sender.outPorts.first(where: { $0.name == name }) else {
        report(
          .unknownPort, at: path + ["from"],
          "\(owner): node '\(pipe.sender)' has no out-port '\(name)'"
            + Suggestion.among(sender.outPorts.map(\.name), like: name))
        return
      }
      if let receiver { checkEvents(of: port, into: receiver, pipe, owner: owner, at: path) }
    case .state(let when, let send) where topology.composite(pipe.sender) != nil:
      let state = projectedState(when, of: pipe, owner: owner, at: path)
      checkSend(send, into: receiver, from: state, owner, at: path)
    case .states(let states, let send):
      for (name, when) in states.sorted(by: { $0.key < $1.key }) {
        checkState(when, of: name, owner: owner, at: path + ["when", name])
      }
      checkSend(send, into: receiver, from: tuple(of: pipe.sender), owner, at: path)
    case .state(let when, let send):
      var state = sender?.states.first { $0.name == when }
      if let sender, state == nil {
        report(
          .unknownState, at: path + ["when"],
          "\(owner): machine '\(sender.machine)' of node '\(pipe.sender)' has no state '\(when)'"
            + (sender.stateFields == nil
              ? Suggestion.among(sender.states.map(\.name), like: when)
              : "; its state is a struct: send the event to an out-port in the code of the machine")
        )
      }
      if topology.node(pipe.sender)?.key != nil {
        state?.fields.append(.init(name: PayloadTemplate.keyVariable, type: "String"))
      }
      checkSend(send, into: receiver, from: state ?? constantState(of: pipe), owner, at: path)
    }
  }

  /// Returns the state that a rule names, if the projection of the sending composite has this
  /// state; otherwise `nil`.
  private mutating func projectedState(
    _ when: String, of pipe: PipeSpecification, owner: String, at path: [String]
  ) -> CaseDescription? {
    guard let composite = topology.composite(pipe.sender), let name = composite.projection,
      let program = topology.program(of: composite),
      let projection = descriptions.programs[program]?.composite(name)
    else { return nil }
    if let state = projection.states.first(where: { $0.name == when }) { return state }
    report(
      .unknownState, at: path + ["when"],
      "\(owner): composite state '\(name)' of composite '\(composite.name)' has no state '\(when)'"
        + Suggestion.among(projection.states.map(\.name), like: when))
    return nil
  }

  /// Checks that a node of a composite has the given state.
  private mutating func checkState(
    _ when: String, of name: String, owner: String, at path: [String]
  ) {
    guard let machine = topology.node(name).flatMap(machine(of:)),
      !machine.states.contains(where: { $0.name == when })
    else { return }
    report(
      .unknownState, at: path,
      "\(owner): machine '\(machine.machine)' of node '\(name)' has no state '\(when)'"
        + (machine.stateFields == nil
          ? Suggestion.among(machine.states.map(\.name), like: when)
          : "; its state is a struct: add a 'projection' to the composite"))
  }

  /// Returns the values that the template of a composite without a projection can use: the states
  /// of the composite's nodes.
  private func tuple(of composite: String) -> CaseDescription? {
    guard let composites, synchronizedEvents(of: composite) != nil else { return nil }
    return CaseDescription(
      name: composite,
      fields: composites.composition.machines(of: composite).map { .init(name: $0, type: "") })
  }

  private mutating func receiver(
    of pipe: PipeSpecification, owner: String, at path: [String]
  ) -> Receiver? {
    if topology.composite(pipe.receiver) != nil {
      return compositeReceiver(of: pipe, owner: owner, at: path)
    }
    guard let node = topology.node(pipe.receiver), node.constant == nil,
      let machine = machine(of: node)
    else { return nil }
    guard let name = pipe.inPort else {
      return Receiver(
        holder: "machine '\(machine.machine)' of node '\(node.name)'", events: machine.events,
        alphabet: machine.alphabet)
    }
    guard let port = machine.inPorts.first(where: { $0.name == name }) else {
      report(
        .unknownPort, at: path + ["to"],
        "\(owner): node '\(node.name)' has no in-port '\(name)'"
          + Suggestion.among(machine.inPorts.map(\.name), like: name))
      return nil
    }
    return Receiver(
      holder: "in-port '\(name)' of node '\(node.name)'", events: port.events,
      alphabet: machine.alphabet)
  }

  /// Returns the receiver of a pipe to a composite; `nil` if the composite does not accept the
  /// pipe's event.
  ///
  /// If a single node of the composite accepts the event on its own, the receiver is that node's
  /// machine.
  private mutating func compositeReceiver(
    of pipe: PipeSpecification, owner: String, at path: [String]
  ) -> Receiver? {
    guard let composites, let events = synchronizedEvents(of: pipe.receiver) else { return nil }
    let names = events.map(\.name)
    let holder = "composite '\(pipe.receiver)'"
    checkCapacity(of: pipe, composites, owner: owner, at: path)
    if let event = pipe.eventTemplate?.caseName, !names.contains(event) {
      if let node = composites.owner(of: event, in: pipe.receiver),
        let machine = composites.machines[node]
      {
        checkDurability(of: pipe, to: node, owner: owner, at: path)
        return Receiver(
          holder: "machine '\(machine.machine)' of node '\(node)'", events: machine.events,
          alphabet: machine.alphabet)
      }
      do throws(RoutingError) {
        _ = try composites.composition.vector(event, of: pipe.receiver)
      } catch {
        report(.notSynchronized, at: path + ["send"], "\(owner): \(composites.wording(of: error))")
      }
      return nil
    }
    guard let port = outPort(of: pipe) else {
      return Receiver(holder: holder, events: events, alphabet: names)
    }
    let sent = port.sentEvents ?? port.events.map(\.name)
    guard sent.contains(where: names.contains) else {
      report(
        .notSynchronized, at: path + ["to"],
        "\(owner): \(holder) synchronizes no event of out-port '\(port.name)' of node "
          + "'\(pipe.sender)', which sends " + sent.map { "'\($0)'" }.joined(separator: ", ")
          + "; connect the port to a node")
      return nil
    }
    let unsynchronized = (port.sentEvents ?? []).filter { !names.contains($0) }
    if !unsynchronized.isEmpty {
      report(
        .notSynchronized, at: path + ["to"],
        "\(owner): \(holder) does not synchronize "
          + "\(unsynchronized.map { "'\($0)'" }.joined(separator: ", ")), which out-port '\(port.name)' "
          + "of node '\(pipe.sender)' also sends; send these events to a node, from a separate "
          + "port")
    }
    // If the machine does not declare which events the port sends, the port may send other events
    // as well. The composite then refuses these events at run time.
    let others = port.events.filter { !names.contains($0.name) }
    return Receiver(holder: holder, events: events + others, alphabet: names)
  }

  /// Rejects a pipe with capacity 1 if its sender also participates in the pipe's event.
  ///
  /// The event stays in the pipe until all participants, including the sender, have accepted it.
  /// But the sender accepts no event while the pipe is full. So the sender and the pipe would wait
  /// for each other forever.
  private mutating func checkCapacity(
    of pipe: PipeSpecification, _ composites: TopologyComposites, owner: String, at path: [String]
  ) {
    guard pipe.capacity == 1, topology.node(pipe.sender) != nil else { return }
    let sent =
      outPort(of: pipe).map { $0.sentEvents ?? $0.events.map(\.name) } ?? [
        pipe.eventTemplate?.caseName ?? ""
      ]
    let own = sent.first { event in
      let vector = try? composites.composition.vector(event, of: pipe.receiver)
      return vector?.participants.contains(pipe.sender) == true
    }
    guard let own else { return }
    report(
      .badValue, at: path + ["capacity"],
      "\(owner): 'capacity' cannot be 1: node '\(pipe.sender)' participates in event '\(own)' of "
        + "composite '\(pipe.receiver)', and accepts no events while a pipe from the node is "
        + "full, so both would wait forever (deadlock) with one event in flight; set 'capacity' "
        + "to 2 or more, or remove it")
  }

  /// Checks that a pipe to a composite is not more durable than the node that receives the pipe's
  /// events for the composite.
  private mutating func checkDurability(
    of pipe: PipeSpecification, to node: String, owner: String, at path: [String]
  ) {
    guard let level = pipe.durability, topology.durability(of: node) < level else { return }
    report(
      .badValue, at: path + ["durability"],
      "\(owner): 'durability' cannot be '\(level.rawValue)': the event goes to node '\(node)' of "
        + "composite '\(pipe.receiver)', which has the lower durability "
        + "'\(topology.durability(of: node).rawValue)'; raise the node's 'durability', or remove "
        + "the pipe's")
  }

  /// Checks that the receiver declares every event of the port, with the same fields.
  private mutating func checkEvents(
    of port: PortDescription, into receiver: Receiver, _ pipe: PipeSpecification, owner: String,
    at path: [String]
  ) {
    let sent = descriptions.schema(ofEventsOf: pipe, in: topology)
    let own = topology.node(pipe.receiver).flatMap { descriptions.schema(of: $0, in: topology) }
    if let sent, let own, sent != own {
      // The receiver migrates events of an earlier version.
      guard sent > own else { return }
      return report(
        .unlikeEvents, at: path + ["to"],
        "\(owner): node '\(pipe.sender)' sends events of schema version \(sent), but \(receiver.holder) "
          + "has schema version \(own); build the program of node '\(pipe.receiver)' first")
    }
    // A pipe to a wrong receiver is reported as one error, even if several events differ.
    let mismatched = port.events.filter { event in
      receiver.events.first { $0.name == event.name }?.fields != event.fields
    }
    guard let event = mismatched.first else { return }
    let head = "\(owner): out-port '\(port.name)' of node '\(pipe.sender)' sends \(event.wording)"
    let others = mismatched.dropFirst().map { "'\($0.name)'" }
    let rest = others.isEmpty ? "" : ", nor \(others.joined(separator: ", "))"
    if let other = receiver.events.first(where: { $0.name == event.name }) {
      report(
        .unlikeEvents, at: path + ["to"],
        "\(head), but \(receiver.holder) declares \(other.wording)"
          + (others.isEmpty ? "" : "; other events differ, too: \(others.joined(separator: ", "))")
          + "; connect ports of the same event type")
    } else {
      report(
        .unlikeEvents, at: path + ["to"],
        "\(head), which \(receiver.holder) does not declare\(rest)"
          + Suggestion.among(receiver.events.map(\.name), like: event.name)
          + "; connect ports of the same event type")
    }
  }

  private func constantState(of pipe: PipeSpecification) -> CaseDescription? {
    guard let node = topology.node(pipe.sender), let constant = node.constant else { return nil }
    if let state = machine(of: node)?.states.first(where: { $0.name == pipe.enteredState }) {
      return state
    }
    guard let name = constant.caseName, name == pipe.enteredState else { return nil }
    let fields = constant.caseMembers ?? [:]
    return CaseDescription(
      name: name,
      fields: fields.keys.sorted().map { CaseDescription.Field(name: $0, type: "") })
  }

  private mutating func checkSend(
    _ send: JSONValue, into receiver: Receiver?, from state: CaseDescription?, _ owner: String,
    at path: [String]
  ) {
    let path = path + ["send"]
    if let state { checkVariables(of: send, from: state, owner, at: path) }
    guard let receiver, let name = send.caseName else { return }
    let known = checkCase(
      send, against: receiver.events, kind: .event(from: state), holder: receiver.holder,
      owner: owner, at: path)
    guard known, !receiver.alphabet.contains(name) else { return }
    report(
      .notInAlphabet, at: path,
      "\(owner): \(receiver.holder) does not accept event '\(name)' in any state"
        + Suggestion.among(receiver.alphabet, like: name, verb: "it accepts"))
  }

  private mutating func checkVariables(
    of send: JSONValue, from state: CaseDescription, _ owner: String, at path: [String]
  ) {
    guard case .object = send, let template = try? PayloadTemplate(send) else { return }
    let names = state.fields.map(\.name)
    for variable in template.variables where !names.contains(variable) {
      report(
        .unknownVariable, at: path,
        "\(owner): state '\(state.name)' has no value '$\(variable)'"
          + Suggestion.among(names.map { "$\($0)" }, like: "$\(variable)", verb: "it has"))
    }
  }
}

extension TopologyChecker {
  /// The kind of the JSON value that is checked.
  enum PayloadKind {
    case state
    /// A condition on a state, in which fields may be missing.
    case condition
    /// An event, or a template that uses values of a state.
    /// - Parameter from: The state whose values the template uses; `nil` if the state is unknown.
    case event(from: CaseDescription?)
  }

  /// Checks that JSON describes a case of an enum, with the case's fields.
  /// - Returns: Whether the enum has a case with this name.
  @discardableResult
  mutating func checkCase(
    _ json: JSONValue, against cases: [CaseDescription], kind: PayloadKind, holder: String,
    owner: String, at path: [String]
  ) -> Bool {
    let (noun, code): (String, Diagnostic.Code) =
      switch kind {
      case .state, .condition: ("state", .unknownState)
      case .event: ("event", .unknownEvent)
      }
    let isBare = json.string != nil
    let labelPath = isBare ? path : path + [json.caseName ?? ""]
    let label = isBare ? source.position(of: path) : source.position(ofKey: labelPath)
    for problem in cases.problems(with: json) {
      let text = "\(owner): " + problem.text(noun: noun, owner: holder)
      switch problem {
      case .noCase: return false
      case .unknownCase:
        report(code, at: label, text)
        return false
      case .unknownField(let name, _):
        report(.unknownField, at: source.position(ofKey: labelPath + [name]), text)
      case .missingField:
        if case .condition = kind { continue }
        report(.missingField, at: label, text)
      case .wrongType(let field, let value, _):
        if case .event = kind, value.isTemplate { continue }
        report(.typeMismatch, at: labelPath + [field.name], text)
      }
    }
    if case .event(let state?) = kind, let found = cases.first(where: { $0.name == json.caseName })
    {
      checkVariables(of: json, from: state, as: found, owner: owner, at: labelPath)
    }
    return true
  }

  /// Checks the types of the variables in an event's template: the value of the state must have the
  /// type of the event's field.
  private mutating func checkVariables(
    of json: JSONValue, from state: CaseDescription, as event: CaseDescription, owner: String,
    at path: [String]
  ) {
    for field in event.fields {
      // A variable that is not a field of the state is already reported.
      guard let name = json.caseMembers?[field.name]?.string.flatMap(TemplateText.wholeVariable),
        let type = state.fields.first(where: { $0.name == name })?.type, !type.isEmpty,
        !SwiftType.assignable(type, to: field.type)
      else { continue }
      report(
        .typeMismatch, at: path + [field.name],
        "\(owner): field '\(field.name)' of event \(event.wording) cannot be '$\(name)', which has "
          + "type \(type); use a value of type \(field.type)")
    }
  }
}

extension JSONValue {
  /// Whether the value is a template that depends on the entered state.
  fileprivate var isTemplate: Bool {
    if let text = string { TemplateText.wholeVariable(text) != nil } else { containsVariables }
  }

  /// Whether any string in this value contains a variable of a template.
  private var containsVariables: Bool {
    switch self {
    case .string(let text): text.contains("$")
    case .array(let values): values.contains { $0.containsVariables }
    case .object(let members): members.values.contains { $0.containsVariables }
    case .null, .bool, .integer, .number: false
    }
  }
}
