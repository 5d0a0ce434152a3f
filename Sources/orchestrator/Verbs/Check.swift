import PipeModelChecker
import PipeRuntime

/// The verb `orchestrator check`.
struct Check: Verb {
  let description = VerbDescription(
    "check", "Checks topology files and their wiring against the programs",
    discussion:
      "Asks each program to describe its machines, without running them. Reports every error "
      + "with its line and column. With --explore, also searches every state that the topology "
      + "can reach (see docs/EXPLORE.md). With --journals, also asks the programs to read the "
      + "states and events in the journals of the nodes (see docs/MIGRATIONS.md); the exit code is "
      + "1 if a program cannot read one of them. Exit codes with --explore: 0, no findings except "
      + "warnings; 1, findings; 6, the search was incomplete and found nothing.",
    options: [
      Option("file-only", "Checks only the file, without asking its programs"),
      Option(
        "journals",
        "Also checks that the programs can read the states and events in the journals"),
      Option(
        "deployment", value: .file,
        "Also checks whether the topologies can run with this deployment file (see "
          + "docs/DEPLOYMENT.md)"),
      Option(
        "explore", "Searches all reachable states, as the file's section 'explore' configures"),
      Option("time", value: .duration, "With --explore: maximum search time. Default: no limit"),
      Option(
        "memory", value: .count("MIB", from: 1),
        "With --explore: maximum memory for states, in MiB. Default: 1024"),
      Option(
        "threads", value: .count("N", from: 1),
        "With --explore: number of search threads. Default: 2"),
      Option(
        "property", value: .text("NAME"), repeats: true,
        "With --explore: checks only this property of the file, up to its first violation; "
          + "can be repeated"),
      Option("all", "With --property: continues after the first violation"),
      Option(
        "no-reduction",
        "With --explore: visits all states, even if fewer states suffice for the same verdict (see "
          + "docs/EXPLORE.md)"),
      Option(
        "node-states", value: .count("N", from: 1),
        "With --explore: maximum number of states of one node; the search stops at this "
          + "limit. Default: \(ExplorationSettings().nodeStateLimit)"),
      Option(
        "hash",
        "With --explore: stores 64-bit fingerprints instead of the states, which saves memory if "
          + "states are larger than 64 bits"),
      Option(
        "out", value: .directory,
        "With --explore: writes each counterexample to this directory, as a scenario for 'test'"),
      Option(
        "cover", value: .directory,
        "With --explore: writes scenarios for 'test' to this directory that together take every "
          + "reachable transition and synchronized event"),
      Option(
        "graph", value: .file,
        "With --explore: draws all states, if there are at most \(ExploredGraph.maximumStateCount), to "
          + "this file, .dot or .mmd"),
      Option(
        "output", "o",
        value: .choice("FORMAT", OutputFormat.allCases.map(\.rawValue) + [Check.sarif]),
        "Output format. Default: text"),
    ],
    positionals: [Positional("FILE", .file, .some, "The topology files; - reads standard input")],
    examples: [
      ("orchestrator check topologies/elevator.yaml", "Checks the elevator and all its pipes"),
      (
        "orchestrator check elevator.yaml --deployment lab.yaml",
        "Checks the elevator and its deployment"
      ),
      (
        "orchestrator check --journals topologies/elevator.yaml",
        "Checks that the programs can continue with the existing journals"
      ),
      (
        "orchestrator check --explore topologies/lift.yaml",
        "Searches all reachable states of the lift, and reports errors"
      ),
      (
        "orchestrator check --explore --cover scenarios topologies/lift.yaml",
        "Writes scenarios that cover all transitions of the lift"
      ),
    ])

  private static let sarif = "sarif"

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    if arguments.contains(option: "explore"), arguments.contains(option: "deployment") {
      throw CommandError(
        "\(UsageError.conflict("--explore", "--deployment")); the search does not depend on "
          + "where nodes run", code: .usage)
    }
    if arguments.contains(option: "journals"),
      arguments.contains(option: "explore") || arguments.contains(option: "file-only")
    {
      throw CommandError(
        "--journals cannot be used with --explore or --file-only", code: .usage)
    }
    if arguments.contains(option: "explore") {
      return try await explore(arguments, console: console)
    }
    let exploreOptions = [
      "time", "memory", "threads", "property", "all", "no-reduction", "node-states", "hash", "out",
      "cover", "graph",
    ]
    if let option = exploreOptions.first(where: arguments.contains(option:)) {
      throw CommandError("--\(option) requires --explore", code: .usage)
    }
    var deployment = try deployment(of: arguments)
    let reports = arguments.positionals.map {
      CheckReport(
        TopologyInput(argument: $0), isFileOnly: arguments.contains(option: "file-only"),
        in: deployment?.examination, readsJournals: arguments.contains(option: "journals"))
    }
    try deployment?.check(for: reports)
    let diagnostics = reports.flatMap(\.diagnostics) + (deployment?.diagnostics ?? [])
    let isValid = reports.allSatisfy(\.isValid) && deployment?.isValid != false
    if arguments.value("output") == Self.sarif {
      var log = SARIFLog(version: Release.version)
      log.add(diagnostics)
      try console.print(log.json)
      return isValid ? .success : .usage
    }
    if arguments.format == .text {
      for diagnostic in diagnostics { console.diagnostic(diagnostic) }
    }
    let lines = lines(of: reports, deployment)
    try console.print(
      reports.map(\.record) + (deployment.map { [$0.record] } ?? []), as: arguments.format,
      lines: lines)
    guard isValid else { return .usage }
    return reports.allSatisfy(\.canReadJournals) ? .success : .failure
  }

  /// Returns the output lines for the files that have no errors.
  private func lines(of reports: [CheckReport], _ deployment: DeploymentReport?) -> [String] {
    var lines: [String] = []
    for report in reports where report.isValid {
      lines.append(report.summaryLine)
      lines += report.journalLines
      if let line = report.silencedWarnings.silencedWarningsLine(of: report.path) {
        lines.append(line)
      }
    }
    if let deployment, deployment.isValid {
      lines.append(deployment.summaryLine)
      if let line = deployment.silencedWarnings.silencedWarningsLine(of: deployment.path) {
        lines.append(line)
      }
    }
    return lines
  }

  /// Returns the report of the deployment file that the command line names.
  private func deployment(of arguments: ParsedArguments) throws -> DeploymentReport? {
    guard let path = arguments.value("deployment") else { return nil }
    let inputs = ([path] + arguments.positionals).map(TopologyInput.init(argument:))
    if inputs[0] == .standardInput, inputs.dropFirst().contains(.standardInput) {
      throw CommandError(
        "standard input cannot be both the topology file and the deployment file; name a "
          + "file for one of them",
        code: .usage)
    }
    return DeploymentReport(inputs[0])
  }

  // MARK: Exploration of states

  private func explore(
    _ arguments: ParsedArguments, console: Console
  ) async throws -> ExitCode {
    let request = try ExploreRequest(arguments)
    // The signals must be blocked before the process starts any thread.
    let interruptSignal = try InterruptSignal()
    var log = SARIFLog(version: Release.version)
    var records: [JSONValue] = []
    var code = ExitCode.success
    for path in arguments.positionals where !interruptSignal.hasArrived() {
      let explored: ExploredFile
      do {
        explored = try await request.explore(
          TopologyInput(argument: path), console: console, isStopped: interruptSignal.hasArrived)
      } catch let errors as TopologyErrors {
        // The other files are still searched.
        for diagnostic in errors.diagnostics { console.diagnostic(diagnostic) }
        log.add(errors.diagnostics)
        code = .usage
        continue
      }
      if code != .usage { code = code.combined(explored.exitCode) }
      log.add(explored)
      switch arguments.format {
      case _ where arguments.value("output") == Self.sarif: break
      case .text:
        let width = console.isTerminal ? console.size.columns : nil
        for line in ExplorationConsoleReport(explored).lines(console.style, width: width) {
          try console.print(line)
        }
      case .json: records.append(explored.record)
      case .jsonl: for record in explored.records { try console.print(record) }
      }
    }
    if arguments.value("output") == Self.sarif {
      try console.print(log.json)
    } else if arguments.format == .json {
      try console.print(.array(records))
    }
    return code
  }
}

extension ExitCode {
  /// Combines the exit codes of two files. The code for a finding takes precedence over the code
  /// for an incomplete search.
  fileprivate func combined(_ other: ExitCode) -> ExitCode {
    if self == .failure || other == .failure { return .failure }
    return self == .incomplete ? self : other
  }
}
