import PipeRuntime
import PipeSupervision

/// `orchestrator apply`
struct Apply: Verb {
  let description = VerbDescription(
    "apply", "Takes up what has changed in the file of a running topology",
    discussion:
      "Nodes that the file has no more stop, new ones start, and those of which the program, the "
      + "parameters, the environment, the pipes or the composites differ are restarted in order; the "
      + "others go on as they are. A topology that runs by a deployment file goes by that one as it is now, or by "
      + "another one that is given; nodes whose place has another address are restarted there. What is to happen is told first. A file with errors changes "
      + "nothing. A node that was stopped by hand stays stopped, one that has failed is started again "
      + "where anything about it has changed. With -o json one object has the plan and the outcome; "
      + "with -o jsonl the plan is a line of its own, before anything happens.",
    options: [
      .topology, .deployment,
      Option("dry-run", "Tells what would happen, and changes nothing"),
      Option("timeout", value: .duration, "The longest wait until it has happened. Default: 60s"),
      .output,
    ],
    positionals: [
      Positional("FILE", .file, .optional, "The topology file. Default: topology.yaml here")
    ],
    examples: [
      (
        "orchestrator apply topologies/elevator.yaml",
        "Has the running elevator go by the file as it is now"
      ),
      ("orchestrator apply --dry-run", "Tells what has changed in topology.yaml"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let given = arguments.positionals.first ?? "topology.yaml"
    let timeout = arguments.duration("timeout") ?? .seconds(60)
    let deadline = ContinuousClock.now + timeout
    let isDryRun = arguments.flag("dry-run")
    let request = ChangeRequest(
      file: FileSystem.absolute(given), variables: ProcessEnvironment.current,
      keepsName: arguments.topology != nil, isDryRun: isDryRun,
      deployment: arguments.value("deployment").map(FileSystem.absolute))
    let client = try TopologyClient.attach(
      to: arguments.target.named(elseBy: try Self.name(in: given)))
    defer { client.close() }
    let planned: PlannedChange
    do {
      planned = try await client.plan(request, within: timeout)
    } catch let errors as TopologyErrors {
      throw TopologyErrors(errors.diagnostics.map { $0.naming(given, for: request.file) })
    }
    let report = ChangeReport(
      topology: client.topology, change: planned.change,
      warnings: planned.warnings.map { $0.naming(given, for: request.file) },
      isDryRun: isDryRun, format: arguments.format, console: console)
    try report.tellPlan()
    guard !isDryRun else {
      guard let obstacle = planned.obstacle else {
        try report.tell(.planned)
        return .success
      }
      let error = TopologyClientError.failed(obstacle)
      try report.tell(.failed, error)
      throw error
    }
    do {
      try await client.apply(planned, within: max(.milliseconds(1), deadline - .now))
    } catch let error as TopologyClientError {
      try report.tell(error.exitCode == ExitCode.timedOut.rawValue ? .timedOut : .failed, error)
      throw error
    }
    try report.tell(.applied)
    return .success
  }

  /// The name of the topology in a file; a file with errors is told with all of them.
  private static func name(in file: String) throws -> String {
    let examined = try TopologyReader.examine(.file(file))
    if examined.diagnostics.hasErrors { return try LoadedTopology.load(.file(file)).topology.name }
    return examined.topology.name
  }
}

extension Diagnostic {
  /// With the path of a file as it was given, in place of its absolute one.
  fileprivate func naming(_ given: String, for absolute: String) -> Diagnostic {
    var named = self
    if named.file == absolute { named.file = given }
    return named
  }
}

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
