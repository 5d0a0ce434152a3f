import PipeModelChecker
import PipeRuntime
import PipeSupervision

/// The verb `orchestrator test`.
struct Test: Verb {
  let description = VerbDescription(
    "test", "Replays scenario files, and compares the results",
    discussion:
      "Replays scenarios, for example the counterexamples that 'check --explore --out' writes. "
      + "With --in-process, no nodes are started: their programs only compute each step. Exit "
      + "code 0: all scenarios match. 1: a scenario does not match. 2: a file cannot be read.",
    options: [
      Option(
        "in-process",
        "Computes each step with the programs, without running nodes; required"), .output,
    ],
    positionals: [Positional("FILE", .file, .some, "The scenario files; - reads standard input")],
    examples: [
      (
        "orchestrator test --in-process found/lift-deadlock-1.yaml",
        "Replays a deadlock found by 'check --explore --out found'"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    guard arguments.contains(option: "in-process") else {
      throw CommandError(
        "scenarios can only be replayed in-process; use --in-process", code: .usage)
    }
    var code = ExitCode.success
    var outcomes: [Outcome] = []
    for path in arguments.positionals {
      do {
        let outcome = try replay(TopologyInput(argument: path))
        if let problem = outcome.problem {
          console.note(problem)
          if code == .success { code = .failure }
        }
        outcomes.append(outcome)
      } catch let errors as TopologyErrors {
        for diagnostic in errors.diagnostics { console.diagnostic(diagnostic) }
        code = .usage
      }
    }
    try console.print(
      outcomes.map(\.record), as: arguments.format,
      lines: outcomes.filter { $0.problem == nil }.map(\.line))
    return code
  }

  private struct Outcome {
    let file: String
    let scenario: Scenario
    let problem: String?

    var line: String { "\(file): ok: \(scenario.steps.count.counted("step"))" }

    var record: JSONValue {
      [
        "file": .string(file), "scenario": .string(scenario.name),
        "steps": .integer(Int64(scenario.steps.count)), "passed": .bool(problem == nil),
        "problem": problem.map { .string($0) } ?? .null,
      ]
    }
  }

  private func replay(_ input: TopologyInput) throws -> Outcome {
    let (scenario, source) = try ScenarioFile.read(input)
    let path =
      scenario.topology.hasPrefix("/")
      ? scenario.topology : input.directory + "/" + scenario.topology
    let loaded = try LoadedTopology.load(.file(path))
    do {
      var replay = try ScenarioReplay(loaded)
      try replay.run(scenario)
      return Outcome(file: input.name, scenario: scenario, problem: nil)
    } catch let failure as ScenarioReplay.Failure {
      let mark = source.position(of: failure.path)
      return Outcome(
        file: input.name, scenario: scenario,
        problem: "\(input.name):\(mark.line):\(mark.column): error: \(failure) [unlike-scenario]")
    }
  }
}
