import PipeMachines
import PipeWire

extension Topology {
  /// The same topology with every default written out.
  public var resolved: Topology {
    var resolved = self
    for index in nodes.indices {
      resolved.nodes[index].program = program(of: nodes[index])
      resolved.nodes[index].durability = nodes[index].durability ?? .standard
    }
    for index in pipes.indices {
      resolved.pipes[index].durability = knownDurability(of: pipes[index])
    }
    for index in composites.indices {
      resolved.composites[index].program = program(of: composites[index])
    }
    for index in monitors.indices {
      resolved.monitors[index].program = program(of: monitors[index])
      resolved.monitors[index].watch =
        monitors[index].watch ?? nodes.map(\.name) + composites.map(\.name)
    }
    return resolved
  }

  /// What the events of a pipe survive; `nil` where that depends on which node of a composite takes them,
  /// which its program tells.
  private func knownDurability(of pipe: PipeSpecification) -> Durability? {
    let level = durability(of: pipe)
    guard pipe.durability == nil, composite(pipe.receiver) != nil, pipe.send != nil else {
      return level
    }
    let nodes = machines(of: pipe.receiver).compactMap(node)
    return nodes.allSatisfy { $0.durability ?? .standard >= level } ? level : nil
  }

  /// The topology as JSON, which ``TopologyReader`` reads back to an equal value.
  public var json: JSONValue { ordered.json }

  /// The topology as YAML, which ``TopologyReader`` reads back to an equal value, in its order.
  public var yaml: String { ordered.yaml }

  private var ordered: OrderedValue { TopologyKeys.top.written(self) }
}

extension OrderedValue {
  static func text(_ text: String) -> OrderedValue { .literal(.string(text)) }

  /// A value that is read as it is: no dollar in it is a variable's.
  static func literal(_ value: JSONValue) -> OrderedValue { .leaf(value.withDoubledDollars) }

  /// A mapping, where there is anything in it.
  static func named(_ members: [(String, OrderedValue)]) -> OrderedValue? {
    members.isEmpty ? nil : .mapping(members.map { (key: $0.0, value: $0.1) })
  }

  static func names(_ names: [String]) -> OrderedValue { .leaf(.texts(names)) }
}

extension JSONValue {
  /// The same with `$$` for each dollar in its values.
  fileprivate var withDoubledDollars: JSONValue {
    switch self {
    case .string(let value): .string(value.replacing("$", with: "$$"))
    case .array(let values): .array(values.map(\.withDoubledDollars))
    case .object(let members): .object(members.mapValues(\.withDoubledDollars))
    case .null, .bool, .integer, .number: self
    }
  }
}
