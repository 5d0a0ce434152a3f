import PipeMachines
import PipeSupport

extension Topology {
  /// The same topology with every default written out.
  public var resolved: Topology {
    var resolved = self
    for index in nodes.indices {
      resolved.nodes[index].program = program(of: nodes[index])
      resolved.nodes[index].durability = nodes[index].durability ?? .standard
    }
    for index in pipes.indices {
      resolved.pipes[index].durability = durability(of: pipes[index])
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

  /// The topology as JSON, which ``TopologyReader`` reads back to an equal value.
  public var json: JSONValue { ordered.json }

  /// The topology as YAML, which ``TopologyReader`` reads back to an equal value, in its order.
  public var yaml: String { ordered.yaml }

  private var ordered: OrderedValue {
    TopologyKeys.top.ordered([
      "topology": .text(name), "program": program.map(OrderedValue.text),
      "environment": .environment(environment),
      "nodes": .mapping(nodes.map { ($0.name, $0.ordered) }),
      "pipes": pipes.isEmpty ? nil : .list(pipes.map(\.ordered)),
      "composites": .named(composites.map { ($0.name, $0.ordered) }),
      "monitors": .named(monitors.map { ($0.name, $0.ordered) }), "timeouts": timeouts.ordered,
    ])
  }
}

extension OrderedValue {
  fileprivate static func text(_ text: String) -> OrderedValue { .literal(.string(text)) }

  /// A value that is read as it is: no dollar in it is a variable's.
  fileprivate static func literal(_ value: JSONValue) -> OrderedValue {
    .leaf(value.withDoubledDollars)
  }

  fileprivate static func duration(_ duration: Duration) -> OrderedValue {
    .text(DurationText.write(duration))
  }

  fileprivate static func environment(_ environment: [String: String]) -> OrderedValue? {
    named(environment.sorted { $0.key < $1.key }.map { ($0.key, .text($0.value)) })
  }

  /// A mapping, where there is anything in it.
  fileprivate static func named(_ members: [(String, OrderedValue)]) -> OrderedValue? {
    members.isEmpty ? nil : .mapping(members.map { (key: $0.0, value: $0.1) })
  }

  fileprivate static func word(_ word: some RawRepresentable<String>) -> OrderedValue {
    text(word.rawValue)
  }

  /// `NODE` or `NODE.PORT`
  fileprivate static func end(_ node: String, _ port: String?) -> OrderedValue {
    text(port.map { "\(node).\($0)" } ?? node)
  }

  fileprivate static func names(_ names: [String]) -> OrderedValue {
    .leaf(.texts(names))
  }
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

extension NodeSpecification {
  fileprivate var ordered: OrderedValue {
    let sorted = dependsOn.sorted { $0.node < $1.node }
    return TopologyKeys.node.ordered([
      "machine": machine.map(OrderedValue.text), "constant": constant.map(OrderedValue.literal),
      "program": program.map(OrderedValue.text),
      "parameters": parameters == [:] ? nil : .literal(parameters),
      "environment": .environment(environment), "restart": restart.ordered,
      "required": .leaf(.bool(required)),
      "depends_on": .named(sorted.map { ($0.node, $0.condition.ordered) }),
      "durability": durability.map { .word($0) },
    ])
  }
}

extension NodeDependency.Condition {
  fileprivate var ordered: OrderedValue {
    switch self {
    case .running: .text("ready")
    case .state(let condition):
      TopologyKeys.dependency.ordered(["state": .literal(condition.state)])
    }
  }
}

extension RestartPolicy {
  fileprivate var ordered: OrderedValue {
    TopologyKeys.restart.ordered([
      "policy": .word(mode), "max": .leaf(.integer(Int64(max))), "window": .duration(window),
      "backoff": TopologyKeys.backoff.ordered([
        "initial": .duration(backoff.initial), "max": .duration(backoff.max),
        "jitter": .leaf(.number(backoff.jitter)),
      ]),
    ])
  }
}

extension Timeouts {
  fileprivate var ordered: OrderedValue {
    TopologyKeys.timeouts.ordered([
      "start": .duration(start), "heartbeat": .duration(heartbeat), "stop": .duration(stop),
    ])
  }
}

extension PipeSpecification {
  fileprivate var ordered: OrderedValue {
    let (port, state): (String?, String?) =
      switch source {
      case .port(let port): (port, nil)
      case .state(let state, _): (nil, state)
      }
    return TopologyKeys.pipe.ordered([
      "name": .text(name), "from": .end(sender, port), "when": state.map(OrderedValue.text),
      "to": .end(receiver, inPort), "send": send.map(OrderedValue.leaf),
      "capacity": .leaf(.integer(Int64(capacity))), "on_refused": .word(onRefused),
      "durability": durability.map { .word($0) },
    ])
  }
}

extension CompositeSpecification {
  fileprivate var ordered: OrderedValue {
    TopologyKeys.composite.ordered([
      "components": .names(components),
      "synchronize": .named(
        synchronize.map { ($0.event, $0.participants.map(OrderedValue.names) ?? .leaf(.null)) }),
      "projection": projection.map(OrderedValue.text), "program": program.map(OrderedValue.text),
    ])
  }
}

extension MonitorSpecification {
  fileprivate var ordered: OrderedValue {
    TopologyKeys.monitor.ordered([
      "monitor": .text(monitor), "watch": watch.map(OrderedValue.names),
      "program": program.map(OrderedValue.text),
    ])
  }
}
