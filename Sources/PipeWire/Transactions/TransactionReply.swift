import PipeMachines

/// The answer to a caller.
package enum TransactionReply: Hashable, Sendable {
  /// All or none have moved.
  case atomic(SynchronizedReply)
  /// Each has answered for itself.
  case broadcast([String: BroadcastResult])
}

extension TransactionReply {
  /// What has become of the event, as the JSON calls it.
  package enum Outcome: String, CaseIterable, Sendable {
    case committed, refused, busy, unavailable, unknown, broadcast
  }

  package var outcome: Outcome {
    switch self {
    case .atomic(.committed): .committed
    case .atomic(.refused): .refused
    case .atomic(.busy): .busy
    case .atomic(.unavailable): .unavailable
    case .atomic(.unknown): .unknown
    case .broadcast: .broadcast
    }
  }
}

// As it travels to its caller, and as `orchestrator send -o json` prints it.

extension TransactionReply {
  package var json: JSONValue {
    switch self {
    case .atomic(let reply): reply.record
    case .broadcast(let results):
      ["outcome": "broadcast", "results": .object(results.mapValues(\.record))]
    }
  }

  /// Reads what ``json`` writes; `nil` where the JSON is something else.
  package init?(json: JSONValue) {
    if json["outcome"] == "broadcast" {
      guard case .object(let members)? = json["results"] else { return nil }
      var results: [String: BroadcastResult] = [:]
      for (participant, member) in members {
        guard let result = BroadcastResult(record: member) else { return nil }
        results[participant] = result
      }
      self = .broadcast(results)
    } else {
      guard let reply = SynchronizedReply(record: json) else { return nil }
      self = .atomic(reply)
    }
  }
}

extension SynchronizedReply {
  /// The reply as JSON.
  package var record: JSONValue {
    switch self {
    case .committed(let transaction, let versions):
      [
        "outcome": "committed", "transaction": .string("\(transaction)"),
        "versions": .object(versions.mapValues { .count($0) }),
      ]
    case .refused(let withholdings):
      ["outcome": "refused", "withheld": .array(withholdings.map(\.record))]
    case .busy(let participants):
      ["outcome": "busy", "participants": .texts(participants)]
    case .unavailable(let participant):
      ["outcome": "unavailable", "participant": .string(participant)]
    case .unknown(let transaction):
      ["outcome": "unknown", "transaction": .string("\(transaction)")]
    }
  }

  /// Reads what ``record`` writes; `nil` where the JSON is something else.
  package init?(record: JSONValue) {
    let transaction = record["transaction"]?.string.flatMap { TransactionID($0) }
    switch record["outcome"]?.string {
    case "committed":
      guard let transaction, case .object(let members)? = record["versions"] else { return nil }
      self = .committed(
        transaction, versions: members.mapValues { UInt64(clamping: $0.integer ?? 0) })
    case "refused":
      guard case .array(let values)? = record["withheld"] else { return nil }
      self = .refused(values.compactMap { Withholding(record: $0) })
    case "busy":
      guard case .array(let values)? = record["participants"] else { return nil }
      self = .busy(values.compactMap(\.string))
    case "unavailable":
      guard let participant = record["participant"]?.string else { return nil }
      self = .unavailable(participant)
    case "unknown":
      guard let transaction else { return nil }
      self = .unknown(transaction)
    default: return nil
    }
  }
}

extension Withholding {
  fileprivate var record: JSONValue {
    var record = reason.members
    record["participant"] = .string(participant)
    record["state"] = state
    record["version"] = version.map { .count($0) } ?? .null
    return .object(record)
  }

  fileprivate init?(record: JSONValue) {
    guard let participant = record["participant"]?.string,
      let reason = Refusal(of: record)
    else { return nil }
    self.init(
      participant: participant, state: record["state"] ?? .null,
      version: record["version"]?.integer.map { UInt64(clamping: $0) }, reason: reason)
  }
}

extension BroadcastResult {
  fileprivate var record: JSONValue {
    switch self {
    case .moved(let version):
      ["outcome": "moved", "version": .count(version)]
    case .refused(let withholding): ["outcome": "refused", "withheld": withholding.record]
    case .busy: ["outcome": "busy"]
    case .unavailable: ["outcome": "unavailable"]
    case .unknown: ["outcome": "unknown"]
    }
  }

  fileprivate init?(record: JSONValue) {
    switch record["outcome"]?.string {
    case "moved": self = .moved(version: UInt64(clamping: record["version"]?.integer ?? 0))
    case "refused":
      guard let withheld = record["withheld"].flatMap({ Withholding(record: $0) }) else {
        return nil
      }
      self = .refused(withheld)
    case "busy": self = .busy
    case "unavailable": self = .unavailable
    case "unknown": self = .unknown
    default: return nil
    }
  }
}
