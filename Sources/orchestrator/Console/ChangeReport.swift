import PipeRuntime

/// What `apply` prints: the plan, and what has become of it.
struct ChangeReport {
  /// What has become of a plan, in JSON.
  enum Outcome: String {
    /// Nothing was to happen.
    case planned
    case applied
    /// A node has failed, or did not stop in order; or the plan was not taken up.
    case failed
    /// The orchestrator goes on with it.
    case timedOut
  }

  let topology: String
  let change: TopologyChange
  let warnings: [Diagnostic]
  let isDryRun: Bool
  let format: OutputFormat
  let console: Console

  /// Tells what is to happen, so that it is seen before anything does. JSON in one piece comes at the end.
  func tellPlan() throws {
    for warning in warnings { console.diagnostic(warning) }
    switch format {
    case .text:
      try console.print("\(topology): \(change.summary)")
      for line in change.lines { try console.print(line) }
    case .jsonl: try console.print(JSONValue.object(plan))
    case .json: return
    }
    try console.flush()
  }

  /// Tells what has become of it; people see that by the exit code, and by the error that follows.
  func tell(_ outcome: Outcome, _ error: TopologyClientError? = nil) throws {
    let record: [String: JSONValue] = [
      "outcome": .string(outcome.rawValue), "error": error.map { .string("\($0)") } ?? .null,
    ]
    switch format {
    case .text: return
    case .jsonl:
      try console.print(JSONValue.object(record.merging(["topology": .string(topology)]) { $1 }))
    case .json: try console.print(JSONValue.object(plan.merging(record) { $1 }))
    }
    try console.flush()
  }

  private var plan: [String: JSONValue] {
    [
      "topology": .string(topology), "dryRun": .bool(isDryRun),
      "plan": .array(change.entries.map(\.record)),
      "warnings": .array(warnings.map(\.record)),
    ]
  }
}

extension TopologyChange.Entry {
  fileprivate var record: JSONValue {
    [
      "node": .string(node), "change": .string(fate.name),
      "reason": fate.reason.map { .string($0) } ?? .null,
    ]
  }
}

extension TopologyChange.Fate {
  fileprivate var name: String {
    switch self {
    case .starts: "starts"
    case .stops: "stops"
    case .restarts: "restarts"
    case .startsAgain: "startsAgain"
    case .staysStopped: "staysStopped"
    case .takenOver: "takenOver"
    case .unchanged: "unchanged"
    }
  }

  fileprivate var reason: String? {
    switch self {
    case .restarts(let reason), .startsAgain(let reason), .staysStopped(let reason): "\(reason)"
    case .takenOver(let aspects): aspects.text
    case .starts, .stops, .unchanged: nil
    }
  }
}
