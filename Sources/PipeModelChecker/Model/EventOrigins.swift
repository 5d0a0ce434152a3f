import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// The origins of events: pipes, effects, and senders outside the topology. If neither the file nor
/// a program declares the origin of an event, an origin is assumed.
struct EventOrigins {
  private let loaded: LoadedTopology
  private let section: ExploreSection
  private let nodes: [ExploredNode]
  /// The names of the events that pipes deliver, by receiving node or composite.
  private let pipedEvents: [String: Set<String>]

  init(_ model: TopologyModel) {
    loaded = model.loaded
    section = model.section
    nodes = model.nodes
    var pipedEvents: [String: Set<String>] = [:]
    for pipe in loaded.pipes {
      pipedEvents[pipe.receiver, default: []].formUnion(Self.events(of: pipe, in: loaded))
    }
    self.pipedEvents = pipedEvents
  }

  /// Returns the names of the events that may be sent into a pipe.
  static func events(of pipe: PipeSpecification, in loaded: LoadedTopology) -> [String] {
    if let send = pipe.eventTemplate { return send.caseName.map { [$0] } ?? [] }
    let port = loaded.descriptions[pipe.sender]?.outPorts.first { $0.name == pipe.outPort }
    return port?.sentEvents ?? port?.events.map(\.name) ?? []
  }

  /// Returns the events that an effect may emit, as declared in the topology file or else by the
  /// machine; `nil` if there is no declaration.
  func declaredEvents(of node: ExploredNode, _ effect: String) -> EffectPattern? {
    if let declared = section.effectEvents[node.baseName]?[effect] { return declared }
    return node.description?.effects?.first { $0.name == effect }.map {
      EffectPattern($0.producedEvents.map { EventPattern($0) }, mayEnd: $0.mayEndWithoutEvent)
    }
  }

  /// Returns the names of all declared events of a node's effects.
  private func declaredEvents(of node: ExploredNode) -> Set<String> {
    let effects = node.opening?.effects ?? []
    return Set(
      effects.flatMap { work in
        (declaredEvents(of: node, work.name)?.events ?? []).map(\.event)
      })
  }

  /// Returns the events that effects without a declaration are assumed to emit: the node's events
  /// that have no other origin.
  func assumedGives(of node: ExploredNode) -> [String] {
    let declared = declaredEvents(of: node)
    return (node.opening?.events.keys.sorted() ?? []).filter { event in
      // An effect of an instance cannot emit a synchronized event.
      !declared.contains(event) && !isDelivered(event, to: node)
        && (node.key == nil || node.compositesByEvent[event] == nil)
    }
  }

  /// Returns whether a node receives an event from a pipe, or as a declared event from outside.
  private func isDelivered(_ event: String, to node: ExploredNode) -> Bool {
    ([node.baseName] + (node.compositesByEvent[event] ?? [])).contains { owner in
      pipedEvents[owner]?.contains(event) == true
        || section.fromOutside?[owner]?.contains { $0.event == event } == true
    }
  }

  /// Returns whether an effect of a node emits an event, by declaration or by assumption.
  private func emitsEvent(_ node: ExploredNode, _ event: String) -> Bool {
    let effects = node.opening?.effects ?? []
    guard !effects.isEmpty else { return false }
    if declaredEvents(of: node).contains(event) { return true }
    return effects.contains { declaredEvents(of: node, $0.name) == nil }
      && assumedGives(of: node).contains(event)
  }

  /// Returns, for each node or composite, the events that are assumed to come from outside the
  /// topology, because no part of the topology emits or delivers these events.
  func assumedOutside() -> [(owner: String, events: [String])] {
    var found: [String: Set<String>] = [:]
    for node in nodes {
      for event in node.opening?.events.keys.sorted() ?? []
      where !isDelivered(event, to: node) && !isEmittedInside(event, to: node)
        && mayHaveKey(event, of: node)
      {
        for owner in node.compositesByEvent[event] ?? [node.baseName] {
          found[owner, default: []].insert(event)
        }
      }
    }
    return found.sorted { $0.key < $1.key }.map { ($0.key, $0.value.sorted()) }
  }

  /// Returns whether a client can send an event to a node. If the node has a `key`, the event must
  /// have the key's field, or a single value without a label, which may contain the key.
  private func mayHaveKey(_ event: String, of node: ExploredNode) -> Bool {
    guard node.key != nil, let field = loaded.topology.node(node.baseName)?.key else { return true }
    let names = (node.opening?.events[event] ?? []).map(\.name)
    return names.contains(field) || names == ["_0"]
  }

  /// Returns whether an effect of the node, or of another participant, emits the event.
  private func isEmittedInside(_ event: String, to node: ExploredNode) -> Bool {
    guard let composites = node.compositesByEvent[event] else { return emitsEvent(node, event) }
    return nodes.contains { other in
      other.compositesByEvent[event]?.contains(where: composites.contains) == true
        && emitsEvent(other, event)
    }
  }
}

/// Converts event patterns to the events that the search tries. Records remarks on values that are
/// not tried.
struct EventValues {
  private let section: ExploreSection
  private(set) var remarks: Set<ExplorationRemark> = []

  /// The maximum number of events for one pattern.
  private static let maximumEventCount = 10_000

  init(_ section: ExploreSection) { self.section = section }

  /// Returns the events of a pattern: one event for each combination of field values.
  /// - Parameters:
  ///   - owner: The node or the composite that receives the event.
  ///   - fields: The fields of the event, with values to try.
  ///   - key: For a node with a `key`: the key's field, and the keys to try.
  mutating func events(
    _ pattern: EventPattern, of owner: String, _ fields: [EvaluatorOpening.Field],
    keyedBy key: (field: String, values: [JSONValue])? = nil
  ) -> [JSONValue] {
    var payloads: [[String: JSONValue]] = [[:]]
    for field in fields {
      let values: [JSONValue]
      if let declared = pattern.fields[field.name]
        ?? section.values[owner]?[pattern.event]?[field.name]
      {
        values = declared.values
      } else if let key, key.field == field.name {
        values = key.values
      } else if let key, fields.count == 1, field.name == "_0", !field.values.isEmpty {
        // The event has one value, without a label. The key may be a field of this value, so each
        // sample value is combined with each key.
        values = Self.values(field.values, keyedBy: key)
        noteValues(field.values, of: field, pattern.event, owner)
      } else {
        values = field.values
        noteValues(values, of: field, pattern.event, owner)
      }
      payloads = payloads.flatMap { payload in
        values.map { value in
          var payload = payload
          payload[field.name] = value == .null ? nil : value
          return payload
        }
      }
      payloads = Array(payloads.prefix(Self.maximumEventCount))
    }
    guard !fields.isEmpty else { return [.string(pattern.event)] }
    return payloads.map { .object([pattern.event: .object($0)]) }
  }

  /// Returns copies of values without a label: for each value and each key, a copy with the key in
  /// the key's field.
  private static func values(
    _ values: [JSONValue], keyedBy key: (field: String, values: [JSONValue])
  ) -> [JSONValue] {
    var valuesWithKeys: [JSONValue] = []
    for case .object(var members) in values {
      for value in key.values {
        members[key.field] = value
        if !valuesWithKeys.contains(.object(members)) { valuesWithKeys.append(.object(members)) }
      }
    }
    return valuesWithKeys
  }

  private mutating func noteValues(
    _ values: [JSONValue], of field: EvaluatorOpening.Field, _ event: String, _ owner: String
  ) {
    guard !field.isComplete else { return }
    remarks.insert(
      .sampledValues(owner: owner, event: event, field: field.name, tried: values))
  }

  mutating func note(_ remark: ExplorationRemark) { remarks.insert(remark) }
}
