import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// The origins of the events of nodes, as declared by the file and the programs; other origins are
/// assumed.
struct EventOrigins {
  private let loaded: LoadedTopology
  private let section: ExploreSection
  private let nodes: [ExploredNode]
  /// The events that pipes deliver, by node or composite.
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
    if let send = pipe.send { return send.caseName.map { [$0] } ?? [] }
    let port = loaded.descriptions[pipe.sender]?.outPorts.first { $0.name == pipe.outPort }
    return port?.sent ?? port?.events.map(\.name) ?? []
  }

  /// Returns the events that an effect may emit, as declared by the file or else by the machine;
  /// `nil` if neither declares them.
  func declaredEvents(of node: ExploredNode, _ effect: String) -> EffectPattern? {
    if let declared = section.gives[node.name]?[effect] { return declared }
    return node.description?.effects?.first { $0.name == effect }.map {
      EffectPattern($0.gives.map { EventPattern($0) }, mayEnd: $0.mayEnd)
    }
  }

  /// Returns the names of the events that effects of a node are declared to emit.
  private func declaredEvents(of node: ExploredNode) -> Set<String> {
    let effects = node.opening?.effects ?? []
    return Set(
      effects.flatMap { work in
        (declaredEvents(of: node, work.name)?.events ?? []).map(\.event)
      })
  }

  /// Returns the events that undeclared effects of a node are assumed to emit: the events without
  /// any other origin.
  func assumedGives(of node: ExploredNode) -> [String] {
    let declared = declaredEvents(of: node)
    return (node.opening?.events.keys.sorted() ?? []).filter { event in
      !declared.contains(event) && !isDelivered(event, to: node)
    }
  }

  /// Returns whether pipes, or declared events from outside, deliver an event to a node.
  private func isDelivered(_ event: String, to node: ExploredNode) -> Bool {
    ([node.name] + (node.synchronized[event] ?? [])).contains { owner in
      pipedEvents[owner]?.contains(event) == true
        || section.fromOutside?[owner]?.contains { $0.event == event } == true
    }
  }

  /// Returns whether an effect of a node emits an event, declared or assumed.
  private func emitsEvent(_ node: ExploredNode, _ event: String) -> Bool {
    let effects = node.opening?.effects ?? []
    guard !effects.isEmpty else { return false }
    if declaredEvents(of: node).contains(event) { return true }
    return effects.contains { declaredEvents(of: node, $0.name) == nil }
      && assumedGives(of: node).contains(event)
  }

  /// Returns the events without an origin in the topology, by node or composite.
  func assumedOutside() -> [(owner: String, events: [String])] {
    var found: [String: Set<String>] = [:]
    for node in nodes {
      for event in node.opening?.events.keys.sorted() ?? []
      where !isDelivered(event, to: node) && !isEmittedInside(event, to: node) {
        for owner in node.synchronized[event] ?? [node.name] {
          found[owner, default: []].insert(event)
        }
      }
    }
    return found.sorted { $0.key < $1.key }.map { ($0.key, $0.value.sorted()) }
  }

  /// Returns whether an effect of the node, or of another participant, emits the event.
  private func isEmittedInside(_ event: String, to node: ExploredNode) -> Bool {
    guard let composites = node.synchronized[event] else { return emitsEvent(node, event) }
    return nodes.contains { other in
      other.synchronized[event]?.contains(where: composites.contains) == true
        && emitsEvent(other, event)
    }
  }
}

/// The events to try for a pattern or an event name, and remarks on values that were left out.
struct EventValues {
  private let section: ExploreSection
  private(set) var remarks: Set<ExplorationRemark> = []

  /// The maximum number of events for one pattern.
  private static let limit = 10_000

  init(_ section: ExploreSection) { self.section = section }

  /// Returns all events of a pattern.
  /// - Parameters:
  ///   - owner: The node or the composite that receives the event.
  ///   - fields: The fields of the event, with values to try.
  mutating func events(
    _ pattern: EventPattern, of owner: String, _ fields: [EvaluatorOpening.Field]
  ) -> [JSONValue] {
    var payloads: [[String: JSONValue]] = [[:]]
    for field in fields {
      let values: [JSONValue]
      if let declared = pattern.fields[field.name]
        ?? section.values[owner]?[pattern.event]?[field.name]
      {
        values = declared.values
      } else {
        values = field.values
        if !field.isComplete {
          remarks.insert(
            .sampledValues(
              owner: owner, event: pattern.event, field: field.name, tried: values))
        }
      }
      payloads = payloads.flatMap { payload in
        values.map { value in
          var payload = payload
          payload[field.name] = value == .null ? nil : value
          return payload
        }
      }
      payloads = Array(payloads.prefix(Self.limit))
    }
    guard !fields.isEmpty else { return [.string(pattern.event)] }
    return payloads.map { .object([pattern.event: .object($0)]) }
  }

  mutating func note(_ remark: ExplorationRemark) { remarks.insert(remark) }
}
