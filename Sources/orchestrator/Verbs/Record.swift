import PipeModelChecker
import PipeRuntime

/// The verb `orchestrator record`.
struct Record: Verb {
  let description = VerbDescription(
    "record", "Runs a topology in the foreground, and records each step of its nodes",
    discussion:
      "Runs the topology as 'orchestrator run --plain' does. Each process of a node writes its "
      + "steps to a file in DIR, before another process can learn of them. 'orchestrator conform "
      + "DIR' compares them with the topology. If DIR is a run of the same file, the recording "
      + "continues, so that you can start the topology again after a crash of the orchestrator. "
      + "Nodes with a 'key' are not recorded.",
    options: [
      Option("out", value: .directory, "The directory of the run; required"),
      Option(
        "name", value: .topology, "Runs the topology under this name. Default: the name in the file"
      ),
      Option(
        "timeout", value: .duration,
        "Stops the topology gracefully after this duration. Default: no limit"),
      Option("logs", "Includes the output of the nodes"),
      Option(
        "lifeline",
        "Stops the topology gracefully when standard input is closed; for tests and scripts"),
    ],
    positionals: [Positional("FILE", .file, .one, "The topology file")],
    examples: [
      (
        "orchestrator record topologies/elevator.yaml --out run1 --timeout 10s",
        "Records ten seconds of the elevator"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    guard let directory = arguments.value("out") else {
      throw CommandError("--out is required: the directory of the run", code: .usage)
    }
    var run = TopologyRun(
      file: arguments.positionals[0], name: arguments.value("name"), display: .plain)
    run.recordingDirectory = directory
    run.showsOutput = arguments.contains(option: "logs")
    run.startTimeout = arguments.duration("timeout")
    run.hasLifeline = arguments.contains(option: "lifeline")
    return try run.run(console: console)
  }
}

/// The verb `orchestrator conform`.
struct Conform: Verb {
  let description = VerbDescription(
    "conform", "Compares a recorded run with its topology",
    discussion:
      "Takes each recorded step again with the node's program, and compares the events at both ends "
      + "of each pipe, and the participants of each synchronized event. Exit code 0: the run "
      + "conforms. 1: it does not. 2: DIR is not a recorded run.",
    options: [.output],
    positionals: [Positional("DIR", .directory, .one, "The directory of the run")],
    examples: [("orchestrator conform run1", "Checks the run that 'record --out run1' has written")]
  )

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let report: ConformanceReport
    do {
      let run = try RecordedRun(readingFrom: arguments.positionals[0])
      var conformance = RunConformance(run, try RunConformance.topology(of: run))
      report = try conformance.check()
    } catch let error as RecordedRunError {
      throw CommandError("\(error)", code: .usage)
    }
    if !report.changedPrograms.isEmpty, report.violationCount > 0, arguments.format == .text {
      console.note(
        "the run was recorded with another build of program "
          + report.changedPrograms.map { "'\($0)'" }.joined(separator: ", "))
    }
    for violation in report.violations where arguments.format == .text {
      console.note("\(violation)")
    }
    try console.print(
      try JSONValue(encoding: report), as: arguments.format, lines: [Self.summary(report)])
    return report.violationCount == 0 ? .success : .failure
  }

  private static func summary(_ report: ConformanceReport) -> String {
    var text =
      report.violationCount == 0
      ? "the run conforms"
      : "the run does not conform: \(report.violationCount.counted("violation"))"
    let listed = ConformanceReport.maximumViolations
    if report.violationCount > listed { text += " (the first \(listed) are listed)" }
    text +=
      "; \(report.steps.counted("step")), \(report.events.counted("pipe event")), "
      + report.transactions.counted("synchronized event")
    if report.unverifiedSteps > 0 {
      text += "; \(report.unverifiedSteps.counted("step")) not compared"
    }
    if !report.tornLines.isEmpty {
      text += "; left out as incomplete: \(report.tornLines.joined(separator: ", "))"
    }
    if !report.unrecordedNodes.isEmpty {
      text += "; not recorded: \(report.unrecordedNodes.joined(separator: ", "))"
    }
    return text
  }
}
