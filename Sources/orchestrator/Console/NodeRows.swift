import PipeRuntime

extension TopologyDirectory {
  /// The rows of `ps` and of the live view.
  /// - Parameter now: Unit: nanoseconds since 1970.
  package func rows(now: Int64) -> [LiveView.Row] { nodes.map { $0.row(now: now) } }
}

extension NodeInformation {
  /// - Parameter now: Unit: nanoseconds since 1970.
  package func row(now: Int64) -> LiveView.Row {
    LiveView.Row(
      node: name, status: phase, state: shownState ?? "",
      reason: shownState == nil ? stateText : "", pid: pid, uptime: uptime(now: now),
      events: Int(clamping: status?.events ?? 0), restarts: Int(clamping: restarts))
  }

  /// The state for a person, or why there is none; empty where neither is known.
  package var stateText: String {
    if let shownState { return shownState }
    guard let reason else { return "" }
    // The phase stands beside it.
    return reason.hasPrefix(phase + ": ") ? String(reason.dropFirst(phase.count + 2)) : reason
  }

  private var shownState: String? {
    status?.state.map { $0.stateText(fields: stateFields) + doubtText }
  }

  /// `, IN DOUBT in 3.17`, where it is.
  private var doubtText: String {
    let transactions = Set(doubts.map(\.transaction)).sorted().map(\.description)
    return transactions.isEmpty ? "" : "  IN DOUBT in \(transactions.joined(separator: ", "))"
  }

  /// How long its process has lived.
  /// - Parameter now: Unit: nanoseconds since 1970.
  package func uptime(now: Int64) -> Duration? {
    startedAt.map { .nanoseconds(max(0, now - $0)) }
  }

  /// All that is known of it: the JSON form of `ps`.
  /// - Parameter now: Unit: nanoseconds since 1970.
  package func record(now: Int64) -> JSONValue {
    var record: [String: JSONValue] = [
      "node": .string(name), "kind": .string(kind.rawValue),
      "machine": hosts.map { .string($0) } ?? .null, "program": .string(program),
      "phase": .string(phase), "running": .bool(isRunning),
      "reason": reason.map { .string($0) } ?? .null,
      "durability": .string(durability.rawValue),
      "journal": journal.map { .string($0) } ?? .null,
      "pid": pid.map { .integer(Int64($0)) } ?? .null, "incarnation": .count(incarnation),
      "restarts": .count(restarts),
      "started": startedAt.map { .string(Timestamp(nanoseconds: $0).description) } ?? .null,
      "uptime": uptime(now: now).map { .number(Double($0.wholeMilliseconds) / 1000) } ?? .null,
      "state": .null, "doubts": .array(doubts.map(\.record)),
    ]
    if let status { record.merge(status.record) { _, new in new } }
    return .object(record)
  }
}

extension NodeStatus {
  fileprivate var record: [String: JSONValue] {
    [
      "state": state ?? .null, "version": .count(version), "events": .count(events),
      "refused": .count(refused), "letters": .count(letters),
      "recentLetters": (try? JSONValue(encoding: recentLetters)) ?? [],
      "unconnected": .count(unconnected), "gaps": .count(gaps), "garbage": .count(garbage),
      "effects": .integer(Int64(effects)), "blocked": .array(blocked.map { .string($0) }),
      "outs": .array(outs.map(\.record)), "ins": .array(ins.map(\.record)),
    ]
  }
}

extension NodeStatus.Pipe {
  fileprivate var record: JSONValue {
    [
      "pipe": .string(name), "events": .count(events), "applied": .count(applied),
      "waiting": .integer(Int64(waiting)), "capacity": .integer(Int64(capacity)),
    ]
  }
}

extension JSONValue {
  static func count(_ count: UInt64) -> JSONValue { .integer(Int64(clamping: count)) }
}
