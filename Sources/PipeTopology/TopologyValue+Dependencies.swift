import PipeMachines
import PipeSupport

// What nodes start after.
extension TopologyValue<Set<NodeDependency>> {
  /// A mapping from nodes to conditions, or a list of nodes that must run.
  static var dependencies: Self {
    let conditions: JSONValue = [
      "anyOf": [["enum": ["ready"]], .variable, .reference("dependency")]
    ]
    let mapping: JSONValue = ["type": "object", "additionalProperties": conditions]
    return Self(
      schema: ["anyOf": [mapping, .reference("nodeList")]],
      definitions: TopologyKeys.dependency.definitions(as: "dependency"),
      write: OrderedValue.dependencies
    ) { $0.dependencies($1) }
  }
}

extension TopologyValue<StateCondition> {
  /// A state to wait for: of a struct, some fields.
  static var condition: Self {
    let fields: JSONValue = ["type": "object", "minProperties": 1]
    let schema: JSONValue = ["anyOf": [.reference("caseName"), .variable, fields]]
    return Self(schema: schema, write: { .literal($0.state) }) { reading, place in
      guard let value = reading.json(place) else { return nil }
      let condition = StateCondition(value)
      if condition.isWellFormed { return condition }
      let found = value == [:] ? "an empty mapping" : place.node.summary
      reading.report(
        .badValue, place,
        "must be a label, {label: {field: value}}, or some fields of a struct, not \(found)")
      return nil
    }
  }
}

extension OrderedValue {
  fileprivate static func dependencies(_ dependencies: Set<NodeDependency>) -> OrderedValue? {
    named(
      dependencies.sorted { $0.node < $1.node }.map { dependency in
        (dependency.node, dependency.state.map(TopologyKeys.dependency.written) ?? .text("ready"))
      })
  }
}

extension TopologyReading {
  fileprivate mutating func dependencies(_ place: TopologyPlace) -> Set<NodeDependency> {
    if let names = nameList(findable: place) { return Set(names.map { NodeDependency($0) }) }
    var dependencies: Set<NodeDependency> = []
    for member in members(of: place, hint: "a mapping such as { door: ready }") ?? [] {
      checkText(of: member, title: place.title)
      // A condition that could not be read leaves a dependency of which other things can be wrong.
      dependencies.insert(NodeDependency(member.key, condition(member.value) ?? .running))
    }
    return dependencies
  }

  private mutating func condition(_ place: TopologyPlace) -> NodeDependency.Condition? {
    if case .mapping = place.node.content {
      return TopologyKeys.dependency.read(&self, place, into: nil)?.map { .state($0) }
    }
    let scalar = place.node.scalar
    if scalar?.value.string == "ready" { return .running }
    report(
      .badValue, place,
      "cannot be \(place.node.summary); write 'ready', or a state to wait for, as in "
        + "{ state: closed }" + Suggestion.hint(for: scalar?.text ?? "", among: ["ready"]))
    return nil
  }
}
