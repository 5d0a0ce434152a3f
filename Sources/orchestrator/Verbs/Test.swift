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
      Option(
        "coverage", value: .file,
        "Writes the reachable transitions and synchronized events, and which of them the scenarios "
          + "took, to this file as JSON; prints the others"),
      Option(
        "time", value: .duration,
        "With --coverage: maximum time of the search of each topology. Default: no limit"),
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
      (
        "orchestrator test --coverage coverage.json scenarios/*.yaml",
        "Replays scenarios, and shows which transitions they do not cover"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let isInProcess = arguments.contains(option: "in-process")
    let repetitions = arguments.countValue("repeat") ?? 1
    let coverageFile = arguments.value("coverage")
    if coverageFile == nil, arguments.contains(option: "time") {
      throw CommandError("--time requires --coverage", code: .usage)
    }
    var coverage = ScenarioCoverage()
    var code = ExitCode.success
    var outcomes: [Outcome] = []
    for path in arguments.positionals {
      do {
        let input = ScenarioInput(try ScenarioFile.read(TopologyInput(argument: path)), at: path)
        let outcome = try await outcome(
          of: input, isInProcess, repetitions, recordsCoverage: coverageFile != nil)
        coverage.add(outcome.coveredItems, of: outcome.loaded, at: input.topologyPath)
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
    var coverageLines: [String] = []
    if let coverageFile {
      do {
        let results = try await coverage.results(
          timeLimit: arguments.duration("time"), console: console)
        try FileSystem.replace(
          FileSystem.absolutePath(coverageFile),
          with: (JSONValue.array(results.map(\.record)).text + "\n").utf8)
        coverageLines = results.flatMap(\.lines)
      } catch let errors as TopologyErrors {
        for diagnostic in errors.diagnostics { console.diagnostic(diagnostic) }
        code = .usage
      }
    }
    try console.print(
      outcomes.map(\.record), as: arguments.format,
      lines: outcomes.filter { $0.problem == nil }.map(\.line) + coverageLines)
    return code
  }

  /// The error that a scenario cannot be replayed on real processes.
  private struct NotGateable: Error { let diagnostic: String }

  /// The error that the orchestrator of a topology has ended during a replay.
  private struct EndedOrchestrator: Error { let exit: String }

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
    let loaded: LoadedTopology
    /// The transitions and synchronized events that the replays have covered.
    let coveredItems: Set<CoverageItem>
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
    of input: ScenarioInput, _ isInProcess: Bool, _ repetitions: Int, recordsCoverage: Bool
  ) async throws -> Outcome {
    let loaded = try LoadedTopology.load(.file(input.topologyPath))
    let scenario = input.scenario
    if !isInProcess, let failure = GatedReplay.unsupportedPart(of: scenario, in: loaded) {
      throw NotGateable(diagnostic: input.diagnostic(failure, "not-gateable"))
    }
    let start = ContinuousClock.now
    var coveredItems: Set<CoverageItem> = []
    func outcome(replays: Int, problem: String? = nil, table: [String] = []) -> Outcome {
      Outcome(
        file: input.source.file, scenario: scenario, loaded: loaded, coveredItems: coveredItems,
        replays: replays, duration: .now - start, problem: problem, table: table)
    }
    for repetition in 1...repetitions {
      var rows: [GatedReplay.Row] = []
      do {
        if isInProcess {
          var replay = try ScenarioReplay(loaded)
          defer { coveredItems.formUnion(replay.coveredItems) }
          try replay.run(scenario)
        } else {
          try await replayOnProcesses(scenario, of: loaded, input.topologyPath, recordsCoverage) {
            rows = $0.rows
            coveredItems.formUnion($0.coveredItems)
          }
        }
      } catch let ended as EndedOrchestrator {
        return outcome(
          replays: repetition,
          problem: "\(input.source.file): error: the orchestrator of topology "
            + "'\(loaded.topology.name)' ended during the replay: \(ended.exit); its nodes have "
            + "ended, too [orchestrator-ended]", table: Self.table(rows))
      } catch let failure as ScenarioReplay.Failure {
        return outcome(
          replays: repetition, problem: input.diagnostic(failure, "unlike-scenario"),
          table: Self.table(rows))
      }
    }
    return outcome(replays: repetitions)
  }

  /// Replays a scenario on real processes.
  /// - Parameter report: Called with the replay at its end, also if it fails.
  private func replayOnProcesses(
    _ scenario: Scenario, of loaded: LoadedTopology, _ file: String, _ recordsCoverage: Bool,
    report: (GatedReplay) -> Void
  ) async throws {
    let topology = try await GatedTopology(file: file, topology: loaded.topology.name)
    defer { topology.end() }
    var replay = try GatedReplay(
      loaded, client: topology.client, recordsCoverage: recordsCoverage)
    defer { report(replay) }
    do { try await replay.run(scenario) } catch {
      // Without its orchestrator, a topology ends. This is no result of the scenario.
      guard let exit = await topology.exitOfOrchestrator() else { throw error }
      throw EndedOrchestrator(exit: exit)
    }
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
