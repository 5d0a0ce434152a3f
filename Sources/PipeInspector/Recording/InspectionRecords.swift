import PipeClient
import PipeMachines
import PipeWire

// The JSON records that the inspector's page receives about a topology.

extension TopologyDirectory {
  /// Returns a record of the nodes and pipes with their status, but without counters.
  /// - Parameter composites: Each composite with the names of its nodes.
  package func inspectionRecord(_ composites: [(name: String, nodes: [String])]) -> JSONValue {
    [
      "is": "topology", "topology": .string(topology), "file": .string(file),
      "phase": .string(phase), "running": .bool(isRunning),
      "nodes": .array(nodes.map(\.inspectionRecord)),
      "composites": .array(
        composites.map { ["name": .string($0.name), "nodes": .texts($0.nodes)] }),
      "pipes": .array(
        pipes.map {
          [
            "name": .string($0.name), "from": .string($0.from), "to": .string($0.to),
            "capacity": .integer(Int64($0.capacity)),
          ]
        }),
    ]
  }
}

extension TopologyHealth {
  /// A record of the topology's health, which the page shows at its top.
  package var inspectionRecord: JSONValue {
    guard case .object(var record) = record else { return .null }
    record["is"] = "health"
    return .object(record)
  }
}

extension NodeInformation {
  fileprivate var inspectionRecord: JSONValue {
    [
      "name": .string(name), "kind": .string(kind.rawValue), "hosts": .optional(hosts),
      "within": .optional(within), "phase": .string(phase), "running": .bool(isRunning),
      "reason": .optional(reason), "pid": pid.map { .integer(Int64($0)) } ?? .null,
      "incarnation": .count(incarnation), "restarts": .count(restarts),
      "durability": .string(durability.rawValue),
    ]
  }
}

extension StateChange {
  /// The maximum size of a state in a record. If a state is larger, the record contains only the
  /// name of its case, and the page can request the complete state. Unit: bytes.
  package static let stateByteCount = 4 << 10

  /// A record of the node's current state and counters.
  package var inspectionRecord: JSONValue {
    var record: [String: JSONValue] = [
      "is": "state", "node": .string(node), "incarnation": .count(incarnation),
      "version": .count(version), "time": .integer(time), "cause": .string(cause),
      "case": .optional(state.caseName), "doubts": .array(doubts.map(\.inspectionRecord)),
    ]
    let byteCount = state.bytes.count
    if byteCount <= Self.stateByteCount {
      record["state"] = state
    } else {
      record["large"] = .integer(Int64(byteCount))
    }
    record["counts"] = summary?.status?.inspectionRecord ?? .null
    return .object(record)
  }
}

extension InDoubtTransaction {
  fileprivate var inspectionRecord: JSONValue {
    [
      "participant": .string(participant), "composite": .string(composite), "event": .string(event),
      "transaction": .string("\(transaction)"),
    ]
  }
}

extension NodeStatus {
  fileprivate var inspectionRecord: JSONValue {
    [
      "events": .count(events), "refused": .count(refused), "deadLetters": .count(deadLetters),
      "effects": .integer(Int64(effects)), "gaps": .count(gaps), "blocked": .texts(blocked),
      "outs": .array(outs.map(\.inspectionRecord)), "ins": .array(ins.map(\.inspectionRecord)),
    ]
  }
}

extension NodeStatus.Pipe {
  fileprivate var inspectionRecord: JSONValue {
    [
      "name": .string(name), "events": .count(events), "applied": .count(applied),
      "waiting": .integer(Int64(waiting)), "capacity": .integer(Int64(capacity)),
    ]
  }
}
