import PipeModelChecker
import PipeRuntime

/// `orchestrator check`
struct Check: Verb {
  let description = VerbDescription(
    "check", "Checks a topology file, and its wiring against its programs",
    discussion:
      "Asks each program to describe its machines, and runs none of them. Every error is "
      + "told, with its line and column. With --explore every state that the topology can reach is "
      + "searched, too: docs/EXPLORE.md. Exit code then: 0 nothing found but warnings, 1 something "
      + "found, 6 the search was not complete and has found nothing.",
    options: [
      Option("file-only", "Checks the file alone, without asking its programs"),
      Option(
        "deployment", value: .file,
        "Checks as well whether the topologies can run by this deployment file: docs/DEPLOYMENT.md"),
      Option("explore", "Searches all states that can be reached, by the file's section 'explore'"),
      Option("time", value: .duration, "With --explore: how long, at most. Default: no limit"),
      Option(
        "memory", value: .count("MIB", from: 1),
        "With --explore: the memory for states, at most, in MiB. Default: 1024"),
      Option(
        "threads", value: .count("N", from: 1),
        "With --explore: the threads that search. Default: 2"),
      Option(
        "property", value: .text("NAME"), repeats: true,
        "With --explore: checks this property of the file, and nothing else, up to its first violation; may be "
          + "repeated"),
      Option("all", "With --property: continues behind the first violation"),
      Option(
        "no-reduction",
        "With --explore: searches all states, also where a part of them is enough: docs/EXPLORE.md"),
      Option(
        "node-states", value: .count("N", from: 1),
        "With --explore: the states of one node at which the search ends. Default: "
          + "\(ExplorationSettings().nodeStateLimit)"),
      Option(
        "hash",
        "With --explore: tells states apart by fingerprints of 64 bits, which takes less memory where a state "
          + "takes more"),
      Option(
        "out", value: .directory,
        "With --explore: writes each counterexample there, as a scenario for 'test'"),
      Option(
        "graph", value: .file,
        "With --explore: draws all states, where there are \(ExploredGraph.limit) at most, into "
          + "this file, .dot or .mmd"),
      Option(
        "output", "o",
        value: .choice("FORMAT", OutputFormat.allCases.map(\.rawValue) + [Check.sarif]),
        "How data is written to stdout. Default: text"),
    ],
    positionals: [Positional("FILE", .file, .some, "The topology files; - is standard input")],
    examples: [
      ("orchestrator check topologies/elevator.yaml", "Checks the elevator and all its pipes"),
      (
        "orchestrator check elevator.yaml --deployment lab.yaml",
        "Checks the elevator, and whether its places are there"
      ),
      (
        "orchestrator check --explore topologies/lift.yaml",
        "Searches all that the lift can do, and tells what can go wrong"
      ),
    ])

  private static let sarif = "sarif"

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    if arguments.flag("explore"), arguments.flag("deployment") {
      throw CommandError(
        "--explore searches what nodes do wherever they run, so it cannot be used with --deployment; "
          + "leave one out", code: .usage)
    }
    if arguments.flag("explore") { return try await explore(arguments, console: console) }
    let exploring = [
      "time", "memory", "threads", "property", "all", "no-reduction", "node-states", "hash", "out",
      "graph",
    ]
    if let option = exploring.first(where: arguments.flag) {
      throw CommandError("--\(option) needs --explore", code: .usage)
    }
    var deployment = try deployment(of: arguments)
    let reports = arguments.positionals.map {
      CheckReport(
        TopologyInput(argument: $0), isFileOnly: arguments.flag("file-only"),
        in: deployment?.examined)
    }
    try deployment?.check(for: reports)
    let diagnostics = reports.flatMap(\.diagnostics) + (deployment?.diagnostics ?? [])
    let isValid = reports.allSatisfy(\.isValid) && deployment?.isValid != false
    if arguments.value("output") == Self.sarif {
      var log = SARIFLog(version: ShowVersion.current)
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
    return isValid ? .success : .usage
  }

  /// Returns the lines about files without errors.
  private func lines(of reports: [CheckReport], _ deployment: DeploymentReport?) -> [String] {
    var lines: [String] = []
    for report in reports where report.isValid {
      lines.append(report.line)
      if let line = report.silenced.silenceLine(of: report.path) { lines.append(line) }
    }
    if let deployment, deployment.isValid {
      lines.append(deployment.line)
      if let line = deployment.silenced.silenceLine(of: deployment.path) { lines.append(line) }
    }
    return lines
  }

  /// Returns the report of the deployment file that the command line names.
  private func deployment(of arguments: ParsedArguments) throws -> DeploymentReport? {
    guard let path = arguments.value("deployment") else { return nil }
    let inputs = ([path] + arguments.positionals).map(TopologyInput.init(argument:))
    if inputs[0] == .standardInput, inputs.dropFirst().contains(.standardInput) {
      throw CommandError(
        "standard input cannot be both a topology and the deployment; name a file for one",
        code: .usage)
    }
    return DeploymentReport(inputs[0])
  }

  // MARK: Exploring

  private func explore(
    _ arguments: ParsedArguments, console: Console
  ) async throws -> ExitCode {
    let request = try ExploreRequest(arguments)
    // The signals must be blocked before any thread starts.
    let interruption = try Interruption()
    var log = SARIFLog(version: ShowVersion.current)
    var records: [JSONValue] = []
    var code = ExitCode.success
    for path in arguments.positionals where !interruption.hasCome() {
      let explored: ExploredFile
      do {
        explored = try await request.explore(
          TopologyInput(argument: path), console: console, isStopped: interruption.hasCome)
      } catch let errors as TopologyErrors {
        // Go on with the other files.
        for diagnostic in errors.diagnostics { console.diagnostic(diagnostic) }
        log.add(errors.diagnostics)
        code = .usage
        continue
      }
      if code != .usage { code = code.worse(explored.exitCode) }
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
  /// Combines the codes of two files. A finding takes precedence over an incomplete search.
  fileprivate func worse(_ other: ExitCode) -> ExitCode {
    if self == .failure || other == .failure { return .failure }
    return self == .incomplete ? self : other
  }
}
