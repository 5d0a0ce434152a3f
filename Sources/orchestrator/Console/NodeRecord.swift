import PipeRuntime

extension NodeInformation {
  /// All that its orchestrator knows of it: the JSON form of `status`, and most of that of `ps`.
  /// - Parameter now: Unit: nanoseconds since 1970.
  package func record(now: Int64) -> JSONValue {
    var record: [String: JSONValue] = [
      "node": .string(name), "kind": .string(kind.rawValue),
      "machine": .optional(hosts), "program": .string(program),
      "phase": .string(phase), "running": .bool(isRunning),
      "reason": .optional(reason),
      "durability": .string(durability.rawValue),
      "journal": .optional(journal),
      "pid": pid.map { .integer(Int64($0)) } ?? .null, "incarnation": .count(incarnation),
      "restarts": .count(restarts),
      "started": startedAt.map { .string(Timestamp(nanoseconds: $0).description) } ?? .null,
      "uptime": uptime(now: now).map { .number(Double($0.wholeMilliseconds) / 1000) } ?? .null,
      "state": .null, "doubts": .array(doubts.map(\.record)),
    ]
    if let within { record["within"] = .string(within) }
    if let status { record.merge(status.record) { _, new in new } }
    return .object(record)
  }
}

extension NodeStatus {
  /// Its counters, without the state that they are of.
  var counters: JSONValue {
    .object(record.filter { !["state", "version", "recentLetters"].contains($0.key) })
  }

  fileprivate var record: [String: JSONValue] {
    [
      "state": state ?? .null, "version": .count(version), "events": .count(events),
      "refused": .count(refused), "letters": .count(letters),
      "lettersLost": .count(lettersLost ?? 0),
      "recentLetters": (try? JSONValue(encoding: recentLetters)) ?? [],
      "unconnected": .count(unconnected), "gaps": .count(gaps), "garbage": .count(garbage),
      "effects": .integer(Int64(effects)), "blocked": .texts(blocked),
      "outs": .array(outs.map(\.record)), "ins": .array(ins.map(\.record)),
    ]
  }
}

extension NodeStatus.Pipe {
  fileprivate var record: JSONValue {
    var members: [String: JSONValue] = [
      "pipe": .string(name), "events": .count(events), "applied": .count(applied),
      "waiting": .integer(Int64(waiting)), "capacity": .integer(Int64(capacity)),
    ]
    if let lost { members["lost"] = .count(lost) }
    if let unsendable { members["unsendable"] = .count(unsendable) }
    return .object(members)
  }
}
