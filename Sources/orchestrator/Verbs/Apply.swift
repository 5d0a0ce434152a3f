import PipeRuntime
import PipeSupervision

/// `orchestrator apply`
struct Apply: Verb {
  let description = VerbDescription(
    "apply", "Applies the changes of a topology file to the running topology",
    discussion:
      "Stops nodes that were removed from the file, starts new ones, and restarts in order "
      + "the nodes whose program, parameters, environment, pipes or composites changed; all "
      + "other nodes keep running. In a deployment, the current deployment file, or the one "
      + "given with --deployment, is applied too; nodes whose place has a new address are "
      + "restarted there. The plan is printed first. A file with errors changes nothing. A "
      + "manually stopped node stays stopped; a failed node is started again if its "
      + "definition changed. With -o json, one object contains the plan and the outcome; with "
      + "-o jsonl, the plan is a line of its own, written before the changes are applied.",
    options: [
      .topology, .deployment,
      Option("dry-run", "Prints the plan and changes nothing"),
      Option(
        "timeout", value: .duration,
        "Maximum time to wait until the changes are applied. Default: 60s"),
      .output,
    ],
    positionals: [
      Positional("FILE", .file, .optional, "The topology file. Default: topology.yaml")
    ],
    examples: [
      (
        "orchestrator apply topologies/elevator.yaml",
        "Applies the current file to the running elevator"
      ),
      ("orchestrator apply --dry-run", "Shows what has changed in topology.yaml"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let givenPath = arguments.positionals.first ?? "topology.yaml"
    let timeout = arguments.duration("timeout") ?? .seconds(60)
    let deadline = ContinuousClock.now + timeout
    let isDryRun = arguments.flag("dry-run")
    let request = ChangeRequest(
      file: FileSystem.absolute(givenPath), variables: ProcessEnvironment.current,
      keepsName: arguments.topology != nil, isDryRun: isDryRun,
      deployment: arguments.value("deployment").map(FileSystem.absolute))
    let client = try TopologyClient.attach(
      to: arguments.target.named(defaultingTo: try Self.name(in: givenPath)))
    defer { client.close() }
    let planned: PlannedChange
    do {
      planned = try await client.plan(request, within: timeout)
    } catch let errors as TopologyErrors {
      throw TopologyErrors(errors.diagnostics.map { $0.withPath(givenPath, for: request.file) })
    }
    let report = ChangeReport(
      topology: client.topology, change: planned.change,
      warnings: planned.warnings.map { $0.withPath(givenPath, for: request.file) },
      isDryRun: isDryRun, format: arguments.format, console: console)
    try report.printPlan()
    guard !isDryRun else {
      guard let obstacle = planned.obstacle else {
        try report.printOutcome(.planned)
        return .success
      }
      let error = TopologyClientError.failed(obstacle)
      try report.printOutcome(.failed, error)
      throw error
    }
    do {
      try await client.apply(planned, within: max(.milliseconds(1), deadline - .now))
    } catch let error as TopologyClientError {
      try report.printOutcome(
        error.exitCode == ExitCode.timedOut.rawValue ? .timedOut : .failed, error)
      throw error
    }
    try report.printOutcome(.applied)
    return .success
  }

  /// Returns the name of the topology in a file. Throws all errors of an invalid file.
  private static func name(in file: String) throws -> String {
    let examination = try TopologyReader.examine(.file(file))
    if examination.diagnostics.hasErrors {
      return try LoadedTopology.load(.file(file)).topology.name
    }
    return examination.topology.name
  }
}

extension Diagnostic {
  /// Returns the diagnostic with the file's path as given, in place of its absolute path.
  fileprivate func withPath(_ givenPath: String, for absolute: String) -> Diagnostic {
    var named = self
    if named.file == absolute { named.file = givenPath }
    return named
  }
}

/// The output of `apply`: the plan and its outcome.
struct ChangeReport {
  /// The outcome of a plan, in JSON.
  enum Outcome: String {
    /// The plan was only computed, or had no changes.
    case planned
    case applied
    /// A node has failed or did not stop in order, or the plan was not applied.
    case failed
    /// The orchestrator still applies the plan.
    case timedOut
  }

  let topology: String
  let change: TopologyChange
  let warnings: [Diagnostic]
  let isDryRun: Bool
  let format: OutputFormat
  let console: Console

  /// Prints the plan before it is applied. With `-o json` the plan is part of the final object.
  func printPlan() throws {
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

  /// Prints the outcome, except as text. People see it by the exit code and the error message.
  func printOutcome(_ outcome: Outcome, _ error: TopologyClientError? = nil) throws {
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
    case .updatedInPlace: "updatedInPlace"
    case .unchanged: "unchanged"
    }
  }

  fileprivate var reason: String? {
    switch self {
    case .restarts(let reason), .startsAgain(let reason), .staysStopped(let reason): "\(reason)"
    case .updatedInPlace(let aspects): aspects.text
    case .starts, .stops, .unchanged: nil
    }
  }
}
