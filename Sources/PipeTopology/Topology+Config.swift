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
    var members: [(key: String, value: OrderedValue)] = [("topology", .text(name))]
    if let program { members.append(("program", .text(program))) }
    if !environment.isEmpty { members.append(("environment", .environment(environment))) }
    members.append(("nodes", .mapping(nodes.map { ($0.name, $0.ordered) })))
    if !pipes.isEmpty { members.append(("pipes", .list(pipes.map(\.ordered)))) }
    if !composites.isEmpty {
      members.append(("composites", .mapping(composites.map { ($0.name, $0.ordered) })))
    }
    if !monitors.isEmpty {
      members.append(("monitors", .mapping(monitors.map { ($0.name, $0.ordered) })))
    }
    members.append(("timeouts", timeouts.ordered))
    return .mapping(members)
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

  fileprivate static func environment(_ environment: [String: String]) -> OrderedValue {
    .mapping(environment.sorted { $0.key < $1.key }.map { ($0.key, .text($0.value)) })
  }

  fileprivate static func names(_ names: [String]) -> OrderedValue {
    .leaf(.array(names.map { .string($0) }))
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
    var members: [(key: String, value: OrderedValue)] = []
    if let machine { members.append(("machine", .text(machine))) }
    if let constant { members.append(("constant", .literal(constant))) }
    if let program { members.append(("program", .text(program))) }
    if parameters != [:] { members.append(("parameters", .literal(parameters))) }
    if !environment.isEmpty { members.append(("environment", .environment(environment))) }
    members.append(("restart", restart.ordered))
    members.append(("required", .leaf(.bool(required))))
    if !dependsOn.isEmpty {
      let sorted = dependsOn.sorted { $0.node < $1.node }
      members.append(("depends_on", .mapping(sorted.map { ($0.node, $0.condition.ordered) })))
    }
    if let durability { members.append(("durability", .text(durability.rawValue))) }
    return .mapping(members)
  }
}

extension NodeDependency.Condition {
  fileprivate var ordered: OrderedValue {
    switch self {
    case .running: .text("ready")
    case .state(let condition): .mapping([("state", .literal(condition.state))])
    }
  }
}

extension RestartPolicy {
  fileprivate var ordered: OrderedValue {
    .mapping([
      ("policy", .text(mode.rawValue)),
      ("max", .leaf(.integer(Int64(max)))),
      ("window", .duration(window)),
      (
        "backoff",
        .mapping([
          ("initial", .duration(backoff.initial)), ("max", .duration(backoff.max)),
          ("jitter", .leaf(.number(backoff.jitter))),
        ])
      ),
    ])
  }
}

extension Timeouts {
  fileprivate var ordered: OrderedValue {
    .mapping([
      ("start", .duration(start)), ("heartbeat", .duration(heartbeat)), ("stop", .duration(stop)),
    ])
  }
}

extension PipeSpecification {
  fileprivate var ordered: OrderedValue {
    var members: [(key: String, value: OrderedValue)] = [("name", .text(name))]
    switch source {
    case .port(let port): members.append(("from", .text("\(sender).\(port)")))
    case .state(let state, _):
      members.append(("from", .text(sender)))
      members.append(("when", .text(state)))
    }
    members.append(("to", .text(inPort.map { "\(receiver).\($0)" } ?? receiver)))
    if let send { members.append(("send", .leaf(send))) }
    members.append(("capacity", .leaf(.integer(Int64(capacity)))))
    members.append(("on_refused", .text(onRefused.rawValue)))
    if let durability { members.append(("durability", .text(durability.rawValue))) }
    return .mapping(members)
  }
}

extension CompositeSpecification {
  fileprivate var ordered: OrderedValue {
    var members: [(key: String, value: OrderedValue)] = [("components", .names(components))]
    if !synchronize.isEmpty {
      let events = synchronize.map { synchronization in
        let participants = synchronization.participants.map(OrderedValue.names)
        return (synchronization.event, participants ?? .leaf(.null))
      }
      members.append(("synchronize", .mapping(events)))
    }
    if let projection { members.append(("projection", .text(projection))) }
    if let program { members.append(("program", .text(program))) }
    return .mapping(members)
  }
}

extension MonitorSpecification {
  fileprivate var ordered: OrderedValue {
    var members: [(key: String, value: OrderedValue)] = [("monitor", .text(monitor))]
    if let watch { members.append(("watch", .names(watch))) }
    if let program { members.append(("program", .text(program))) }
    return .mapping(members)
  }
}
