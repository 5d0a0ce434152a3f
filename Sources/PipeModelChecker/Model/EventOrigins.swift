import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// Where the events of nodes come from, as far as the file and the programs say; the rest is assumed.
struct EventOrigins {
  private let loaded: LoadedTopology
  private let section: ExploreSection
  private let nodes: [ExploredNode]
  /// By node or composite, the events that pipes bring there.
  private let piped: [String: Set<String>]

  init(_ model: TopologyModel) {
    loaded = model.loaded
    section = model.section
    nodes = model.nodes
    var piped: [String: Set<String>] = [:]
    for pipe in loaded.pipes {
      piped[pipe.receiver, default: []].formUnion(Self.events(of: pipe, in: loaded))
    }
    self.piped = piped
  }

  /// The names of the events that may be sent into a pipe.
  static func events(of pipe: PipeSpecification, in loaded: LoadedTopology) -> [String] {
    if let send = pipe.send { return send.caseName.map { [$0] } ?? [] }
    let port = loaded.descriptions[pipe.sender]?.outPorts.first { $0.name == pipe.outPort }
    return port?.sent ?? port?.events.map(\.name) ?? []
  }

  /// What an effect of a node may give, as the file says, or else the machine; `nil` where neither does.
  func declaredGives(of node: ExploredNode, _ effect: String) -> EffectPattern? {
    if let declared = section.gives[node.name]?[effect] { return declared }
    return node.description?.effects?.first { $0.name == effect }.map {
      EffectPattern($0.gives.map { EventPattern($0) }, mayEnd: $0.mayEnd)
    }
  }

  /// The names of the events that effects of a node are declared to give.
  private func declaredGives(of node: ExploredNode) -> Set<String> {
    let works = node.opening?.works ?? []
    return Set(
      works.flatMap { work in
        (declaredGives(of: node, work.name)?.events ?? []).map(\.event)
      })
  }

  /// The events that effects of a node give where nothing is declared: those that nothing else gives.
  func assumedGives(of node: ExploredNode) -> [String] {
    let declared = declaredGives(of: node)
    return (node.opening?.events.keys.sorted() ?? []).filter { event in
      !declared.contains(event) && !isGiven(event, to: node)
    }
  }

  /// Whether pipes, or the declared outside, bring an event to a node.
  private func isGiven(_ event: String, to node: ExploredNode) -> Bool {
    ([node.name] + (node.synchronized[event] ?? [])).contains { owner in
      piped[owner]?.contains(event) == true
        || section.fromOutside?[owner]?.contains { $0.event == event } == true
    }
  }

  /// Whether an effect of a node gives an event, declared or assumed.
  private func givesByItself(_ node: ExploredNode, _ event: String) -> Bool {
    let works = node.opening?.works ?? []
    guard !works.isEmpty else { return false }
    if declaredGives(of: node).contains(event) { return true }
    return works.contains { declaredGives(of: node, $0.name) == nil }
      && assumedGives(of: node).contains(event)
  }

  /// By node or composite, the events that nobody inside gives.
  func assumedOutside() -> [(owner: String, events: [String])] {
    var found: [String: Set<String>] = [:]
    for node in nodes {
      for event in node.opening?.events.keys.sorted() ?? []
      where !isGiven(event, to: node) && !isGivenInside(event, to: node) {
        for owner in node.synchronized[event] ?? [node.name] {
          found[owner, default: []].insert(event)
        }
      }
    }
    return found.sorted { $0.key < $1.key }.map { ($0.key, $0.value.sorted()) }
  }

  /// Whether an effect gives it: of the node, or of another one that takes it together with it.
  private func isGivenInside(_ event: String, to node: ExploredNode) -> Bool {
    guard let composites = node.synchronized[event] else { return givesByItself(node, event) }
    return nodes.contains { other in
      other.synchronized[event]?.contains(where: composites.contains) == true
        && givesByItself(other, event)
    }
  }
}

/// The events that are tried where a pattern, or only a name, is given; and what was left out.
struct EventValues {
  private let section: ExploreSection
  private(set) var remarks: Set<ExplorationRemark> = []

  /// The most events that one pattern stands for.
  private static let limit = 10_000

  init(_ section: ExploreSection) { self.section = section }

  /// Every event of a pattern.
  /// - Parameters:
  ///   - owner: The node or the composite that takes it.
  ///   - fields: The fields of the event, with values to try.
  mutating func events(
    _ pattern: EventPattern, of owner: String, _ fields: [OracleOpening.Field]
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
