import PipeModelChecker
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator test`.
struct Test: Verb {
  let description = VerbDescription(
    "test", "Replays scenario files, and compares the results",
    discussion:
      "Replays scenarios, for example the counterexamples that 'check --explore --out' writes. "
      + "Starts the topology of each scenario with gated nodes, which take only the steps of the "
      + "scenario: no effect and no timer runs. The topology has a directory of its own, and ends "
      + "with the scenario. With --in-process, no nodes are started: their programs only compute "
      + "each step. Exit code 0: all scenarios match. 1: a scenario does not match. 2: a file "
      + "cannot be read, or a scenario cannot be replayed on real processes.",
    options: [
      Option(
        "in-process", "Computes each step with the programs, without running nodes"),
      Option(
        "repeat", value: .count("N", from: 1),
        "Replays each scenario N times, and stops at the first mismatch. Default: 1"),
      Option("junit", value: .file, "Writes the results to this file, as JUnit XML"),
      .output,
    ],
    positionals: [Positional("FILE", .file, .some, "The scenario files; - reads standard input")],
    examples: [
      (
        "orchestrator test found/lift-deadlock-1.yaml",
        "Replays a deadlock found by 'check --explore --out found' on real processes"
      ),
      (
        "orchestrator test --in-process found/lift-deadlock-1.yaml",
        "Replays the deadlock without running nodes"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let isInProcess = arguments.contains(option: "in-process")
    let repetitions = arguments.countValue("repeat") ?? 1
    var code = ExitCode.success
    var outcomes: [Outcome] = []
    for path in arguments.positionals {
      do {
        let input = ScenarioInput(try ScenarioFile.read(TopologyInput(argument: path)), at: path)
        let outcome = try await outcome(of: input, isInProcess, repetitions)
        if let problem = outcome.problem {
          console.note(problem)
          for line in outcome.table { console.note("  " + line) }
          if code == .success { code = .failure }
        }
        outcomes.append(outcome)
      } catch let errors as TopologyErrors {
        for diagnostic in errors.diagnostics { console.diagnostic(diagnostic) }
        code = .usage
      } catch let error as NotGateable {
        console.note(error.diagnostic)
        code = .usage
      }
    }
    if let file = arguments.value("junit") {
      try FileSystem.replace(
        FileSystem.absolutePath(file), with: JUnitReport(outcomes.map(\.junitCase)).xml.utf8)
    }
    try console.print(
      outcomes.map(\.record), as: arguments.format,
      lines: outcomes.filter { $0.problem == nil }.map(\.line))
    return code
  }

  /// The error that a scenario cannot be replayed on real processes.
  private struct NotGateable: Error { let diagnostic: String }

  /// A scenario with its source.
  private struct ScenarioInput {
    let scenario: Scenario
    let source: SourceMap
    let topologyPath: String

    init(_ read: ScenarioFile.Result, at argument: String) {
      (scenario, source) = read
      topologyPath =
        scenario.topology.hasPrefix("/")
        ? scenario.topology : TopologyInput(argument: argument).directory + "/" + scenario.topology
    }

    /// The position of a failure, and its description.
    func diagnostic(_ failure: ScenarioReplay.Failure, _ code: String) -> String {
      let position = source.position(of: failure.path)
      return "\(source.file):\(position.line):\(position.column): error: \(failure) [\(code)]"
    }
  }

  private struct Outcome {
    let file: String
    let scenario: Scenario
    /// The number of replays, the failed one included.
    let replays: Int
    let duration: Duration
    var problem: String?
    /// The steps of a scenario that failed on real processes, with their outcomes.
    var table: [String] = []

    var line: String {
      "\(file): ok: \(scenario.steps.count.counted("step"))"
        + (replays > 1 ? ", \(replays) times" : "")
    }

    var record: JSONValue {
      [
        "file": .string(file), "scenario": .string(scenario.name),
        "steps": .integer(Int64(scenario.steps.count)), "passed": .bool(problem == nil),
        "problem": problem.map { .string($0) } ?? .null,
      ]
    }

    var junitCase: JUnitReport.Case {
      JUnitReport.Case(
        name: scenario.name, file: file, duration: duration, problem: problem,
        details: table.joined(separator: "\n"))
    }
  }

  private func outcome(
    of input: ScenarioInput, _ isInProcess: Bool, _ repetitions: Int
  ) async throws -> Outcome {
    let loaded = try LoadedTopology.load(.file(input.topologyPath))
    let scenario = input.scenario
    if !isInProcess, let failure = GatedReplay.unsupportedPart(of: scenario, in: loaded) {
      throw NotGateable(diagnostic: input.diagnostic(failure, "not-gateable"))
    }
    let start = ContinuousClock.now
    for repetition in 1...repetitions {
      var rows: [GatedReplay.Row] = []
      do {
        if isInProcess {
          var replay = try ScenarioReplay(loaded)
          try replay.run(scenario)
        } else {
          try await replayOnProcesses(scenario, of: loaded, input.topologyPath) { rows = $0 }
        }
      } catch let failure as ScenarioReplay.Failure {
        return Outcome(
          file: input.source.file, scenario: scenario, replays: repetition, duration: .now - start,
          problem: input.diagnostic(failure, "unlike-scenario"), table: Self.table(rows))
      }
    }
    return Outcome(
      file: input.source.file, scenario: scenario, replays: repetitions, duration: .now - start)
  }

  /// Replays a scenario on real processes.
  /// - Parameter report: Called with the steps after the replay, also if it fails.
  private func replayOnProcesses(
    _ scenario: Scenario, of loaded: LoadedTopology, _ file: String,
    report: ([GatedReplay.Row]) -> Void
  ) async throws {
    let topology = try await GatedTopology(file: file, topology: loaded.topology.name)
    defer { topology.end() }
    var replay = try GatedReplay(loaded, client: topology.client)
    defer { report(replay.rows) }
    try await replay.run(scenario)
  }

  private static func table(_ rows: [GatedReplay.Row]) -> [String] {
    guard !rows.isEmpty else { return [] }
    var table = Table(
      Table.Column("STEP", .right), Table.Column("ACTION"), Table.Column("EXPECTED"),
      Table.Column("SEEN"))
    for (index, row) in rows.enumerated() {
      table.add(String(index + 1), row.step, row.expected, row.actual)
    }
    return table.lines()
  }
}
