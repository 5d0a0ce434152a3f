import PipeMachines
import PipeWire

extension TopologyValueType<PipeEnd> {
  static var pipeEnd: Self {
    Self(schema: .pattern("^[^.]+(\\..+)?$"), writeValue: { .text("\($0)") }) { reading, place in
      guard let text = reading.string(place, hint: "NODE or NODE.PORT") else { return nil }
      let end = PipeEnd(text)
      if !end.node.isEmpty, end.port?.isEmpty != true { return end }
      reading.report(.badName, place, "must be NODE or NODE.PORT, not '\(text)'")
      return nil
    }
  }
}

extension TopologyValueType<String> {
  static var pipeName: Self {
    Self(schema: .orVariable(.pattern("^[^\\s]{1,128}$")), writeValue: OrderedValue.text) {
      reading, place in
      guard let name = reading.string(place, hint: "a name") else { return nil }
      if PipeSpecification.isValidName(name) { return name }
      reading.refuse(place, wanted: "1 to 128 characters without spaces", .badName)
      return nil
    }
  }
}

/// The entered state that makes a rule send an event.
///
/// The rule names a state or, for a composite, the states of several nodes.
enum EnteredState: Sendable {
  case state(String)
  case states([String: String])
}

extension TopologyValueType<EnteredState> {
  static var enteredState: Self {
    let states: JSONValue = [
      "type": "object", "minProperties": 1, "additionalProperties": .nonemptyText,
    ]
    return Self(schema: ["anyOf": [.nonemptyText, states]], writeValue: OrderedValue.enteredState) {
      reading, place in
      if place.node.scalar != nil {
        return reading.string(place, hint: "a state's name").map(EnteredState.state)
      }
      let hint = "a state's name, or for a composite a mapping such as { door: open, motor: idle }"
      guard let members = reading.members(of: place, hint: hint) else { return nil }
      guard !members.isEmpty else {
        reading.report(.badValue, place, "is empty; name nodes of the composite, each with a state")
        return nil
      }
      var states: [String: String] = [:]
      for member in members {
        guard let state = reading.string(member.value, hint: "a state's name") else { return nil }
        states[member.key] = state
      }
      return .states(states)
    }
  }
}

extension OrderedValue {
  fileprivate static func enteredState(_ entered: EnteredState) -> OrderedValue? {
    switch entered {
    case .state(let state): .text(state)
    case .states(let states):
      named(states.sorted { $0.key < $1.key }.map { ($0.key, .text($0.value)) })
    }
  }
}

/// The keys of a pipe in a file. Only some combinations of the keys are valid.
struct PipeEntry {
  /// The pipe that results from the keys. Its ends and its event are set after the keys were
  /// checked.
  var pipe = PipeSpecification(sender: "", source: .port(""), receiver: "", name: "")
  var from = PipeEnd("")
  var enteredState: EnteredState?
  var to = PipeEnd("")
  var sentEvent: JSONValue?
}

extension Topology {
  var pipeEntries: [PipeEntry] {
    get {
      pipes.map { pipe in
        PipeEntry(
          pipe: pipe, from: PipeEnd(node: pipe.sender, port: pipe.outPort),
          enteredState: pipe.ruleCondition,
          to: PipeEnd(node: pipe.receiver, port: pipe.inPort), sentEvent: pipe.eventTemplate)
      }
    }
    set { pipes = newValue.map(\.pipe) }
  }
}

extension TopologyReading {
  /// Completes the pipe from the values of its keys. Returns whether the pipe is valid.
  mutating func complete(_ entry: inout PipeEntry, _ fields: TopologyFields) -> Bool {
    var place = fields.cursor
    if fields.readKeys.contains("name") { place.owner = "pipe '\(entry.pipe.name)'" }
    guard fields.readKeys.contains("from") else { return false }
    let source = readPipeSource(entry, fields, place)
    guard let source, fields.readKeys.contains("to") else { return false }
    (entry.pipe.sender, entry.pipe.source) = (entry.from.node, source)
    (entry.pipe.receiver, entry.pipe.inPort) = (entry.to.node, entry.to.port)
    guard !fields.readKeys.contains("name") else { return true }
    entry.pipe.name = entry.pipe.derivedName
    guard fields["name"] == nil, !PipeSpecification.isValidName(entry.pipe.name) else {
      return true
    }
    report(
      .badName, place,
      "would be named '\(entry.pipe.name)', but a pipe name has 1 to 128 characters without "
        + "spaces; correct its ends, or add a 'name'")
    return false
  }

  private mutating func readPipeSource(
    _ entry: PipeEntry, _ fields: TopologyFields, _ place: TopologyCursor
  ) -> PipeSpecification.Source? {
    if let port = entry.from.port {
      guard let extra = fields["when"] ?? fields["send"] else { return .port(port) }
      report(
        .conflictingKeys, at: source.position(ofKey: extra.path),
        "\(place.owner) starts at out-port '\(port)', which sends its own events; remove 'when' "
          + "and 'send', or the port from 'from'")
      return nil
    }
    guard fields["when"] != nil || fields["send"] != nil else {
      report(
        .missingKey, at: place.path + ["from"],
        "\(place.owner) starts at node '\(entry.from.node)' without an out-port; write "
          + "'\(entry.from.node).PORT', or add 'when: STATE' and 'send: EVENT'")
      return nil
    }
    for key in ["when", "send"] where fields[key] == nil {
      report(
        .missingKey, at: place.node.position,
        "\(place.owner) has no '\(key)'; a rule has both 'when: STATE' and 'send: EVENT'")
    }
    guard let when = entry.enteredState, let send = entry.sentEvent else { return nil }
    return switch when {
    case .state(let state): .state(state, send: send)
    case .states(let states): .states(states, send: send)
    }
  }
}

extension PipeSpecification {
  fileprivate var ruleCondition: EnteredState? {
    switch source {
    case .port: nil
    case .state(let state, _): .state(state)
    case .states(let states, _): .states(states)
    }
  }
}
