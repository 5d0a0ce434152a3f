import PipeMachines
import PipeWire

// The JSON about a topology for an inspector's page.

extension TopologyDirectory {
  /// The nodes and pipes with their status, without counters.
  /// - Parameter composites: The composites with the names of their nodes.
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
  /// The maximum size of a state in a record. Larger states are sent as their case name, and as a
  /// whole on request. Unit: bytes.
  package static let stateByteCount = 4 << 10

  /// The node's state and counters.
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
