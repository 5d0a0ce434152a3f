import PipeRuntime
import PipeSupervision

/// The verb `orchestrator apply`.
struct Apply: Verb {
  let description = VerbDescription(
    "apply", "Applies the changes of a topology file to the running topology",
    discussion:
      "Stops nodes that were removed from the file, starts nodes that were added, and gracefully "
      + "restarts nodes whose program, parameters, environment, pipes or composites have "
      + "changed. All other nodes keep running. In a deployment, also applies the deployment "
      + "file: the file given with --deployment, or else the file of the run. Nodes whose "
      + "place has a new address are restarted at that address. Nodes in which only the program "
      + "has changed are upgraded one by one. If a node does not become ready with the new "
      + "program, its journal is restored, the former program is started, and 'apply' ends. The "
      + "plan is printed first. If the file has errors, or if the programs cannot read the states "
      + "and events in the journals (see docs/MIGRATIONS.md), nothing is changed. A manually "
      + "stopped node stays stopped. For nodes, pipes and composites with former names ('was'), "
      + "the names in the journals are changed. If a removed node has unfinished work, 'apply' "
      + "asks at a terminal before it continues; in a script, it does not ask. A failed node is "
      + "started again if its definition has changed. With -o json, one object contains the plan "
      + "and the outcome; with -o jsonl, the plan is a separate line, written before the changes "
      + "are applied.",
    options: [
      .topology, .deployment,
      Option(
        "dry-run",
        "Prints the plan, and the stored states and events that the new programs cannot read; "
          + "changes nothing"),
      Option(
        "accept-loss", value: .text("NAME"), repeats: true,
        "A node or a pipe whose stored states or events may be lost if the new program cannot "
          + "read them; can be repeated"),
      Option(
        "pause-after", value: .text("NODE"),
        "Upgrades the programs of nodes up to this one; the next 'apply' upgrades the others"),
      Option(
        "yes", "y",
        "Does not ask for confirmation before it removes nodes whose journals have unfinished work"),
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
    let isDryRun = arguments.contains(option: "dry-run")
    let request = ChangeRequest(
      file: FileSystem.absolutePath(givenPath), variables: ProcessEnvironment.current,
      keepsName: arguments.topology != nil, isDryRun: isDryRun,
      deployment: arguments.value("deployment").map(FileSystem.absolutePath),
      acceptedLosses: arguments.commaSeparatedValues("accept-loss"),
      pauseNode: arguments.value("pause-after"))
    let client = try TopologyClient.attach(
      to: arguments.target.named(defaultingTo: try Self.name(in: givenPath)))
    defer { client.close() }
    let planned: PlannedChange
    do {
      planned = try await client.plan(request, within: timeout)
    } catch let errors as TopologyErrors {
      throw TopologyErrors(errors.diagnostics.map { $0.withPath(givenPath, for: request.file) })
    }
    let unfinished = planned.unfinished ?? []
    let report = ChangeReport(
      topology: client.topology, change: planned.change,
      warnings: planned.warnings.map { $0.withPath(givenPath, for: request.file) },
      failures: planned.failures ?? [], renames: planned.renames ?? NameChanges(),
      unfinished: unfinished, isDryRun: isDryRun, format: arguments.format, console: console)
    try report.printPlan()
    guard !isDryRun, planned.reasonNotApplicable == nil else {
      guard let obstacle = planned.reasonNotApplicable else {
        try report.printOutcome(.planned)
        return .success
      }
      let error = TopologyClientError.failed(obstacle)
      try report.printOutcome(.failed, error)
      throw error
    }
    if !unfinished.isEmpty, console.canPrompt, !arguments.contains(option: "yes"),
      try !console.confirm("Remove these nodes with their unfinished work?")
    {
      let error = TopologyClientError.failed("cancelled: nothing was changed")
      try report.printOutcome(.failed, error)
      throw error
    }
    let remaining: [String]
    do {
      remaining = try await client.apply(planned, within: max(.milliseconds(1), deadline - .now))
    } catch let error as TopologyClientError {
      try report.printOutcome(
        error.exitCode == ExitCode.timedOut.rawValue ? .timedOut : .failed, error)
      throw error
    }
    guard remaining.isEmpty else {
      try report.printOutcome(.paused)
      console.note(
        "paused after '\(arguments.value("pause-after") ?? "")'; 'orchestrator apply \(givenPath)' "
          + "upgrades the other nodes: \(remaining.joined(separator: ", "))")
      return .success
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
  /// Returns the diagnostic with the path that the user has given, in place of the file's absolute
  /// path.
  fileprivate func withPath(_ givenPath: String, for absolute: String) -> Diagnostic {
    var named = self
    if named.file == absolute { named.file = givenPath }
    return named
  }
}

/// The output of `apply`: the plan and the outcome.
struct ChangeReport {
  /// The outcome of a plan, as JSON shows it.
  enum Outcome: String {
    /// The plan was only computed and not applied, or contains no changes.
    case planned
    case applied
    /// The programs of some nodes are not replaced yet, as requested with `--pause-after`.
    case paused
    /// A node has failed or has not stopped gracefully, or the plan was not applied.
    case failed
    /// The orchestrator is still applying the plan.
    case timedOut
  }

  let topology: String
  let change: TopologyChange
  let warnings: [Diagnostic]
  /// The stored states and events that the new programs cannot read.
  let failures: [MigrationFailure]
  /// The names that change in the journals.
  let renames: NameChanges
  /// The removed nodes whose journals have unfinished work.
  let unfinished: [PlannedChange.UnfinishedWork]
  let isDryRun: Bool
  let format: OutputFormat
  let console: Console

  /// Prints the plan, before it is applied. With `-o json`, prints nothing: the final object
  /// contains the plan.
  func printPlan() throws {
    for warning in warnings { console.diagnostic(warning) }
    for item in unfinished {
      console.warning(
        "node '\(item.node)' is not in the file any more, and its journal has unfinished work: "
          + "\(item.work.joined(separator: ", ")); if the node has a new name, add 'was: "
          + "[\(item.node)]' to the node; otherwise the journal stays, and continues if a later file "
          + "contains the node again")
    }
    switch format {
    case .text:
      try console.print("\(topology): \(change.summary)")
      for line in change.entryLines { try console.print(line) }
      for line in renames.lines { try console.print(line) }
      for failure in failures { try console.print(failure.text) }
    case .jsonl: try console.print(JSONValue.object(plan))
    case .json: return
    }
    try console.flush()
  }

  /// Prints the outcome as JSON. As text, nothing is printed, since the exit code and the error
  /// message show the outcome.
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
      "warnings": .array(warnings.map(\.record)), "failures": .array(failures.map(\.record)),
      "renames": .object(
        renames.members.merging(renames.pipes.mapValues(\.name)) { first, _ in first }
          .mapValues { .string($0) }),
      "unfinished": .array(
        unfinished.map { ["node": .string($0.node), "work": .texts($0.work)] }),
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
