import PipeExplorer
import PipeRuntime
import PipeSupervision

/// `orchestrator export`
struct Export: Verb {
  let description = VerbDescription(
    "export", "Writes a topology for another tool",
    discussion:
      "promela: all that 'check --explore' has asked the programs for, as a model for SPIN, so "
      + "that the "
      + "search can be checked by another one: 'orchestrator export promela FILE > model.pml', "
      + "then 'spin -a model.pml', 'cc -DSAFETY -o pan pan.c', './pan -m1000000'. A deadlock is an "
      + "invalid end state there.",
    options: [
      Option("time", value: .duration, "How long is searched, at most. Default: no limit")
    ],
    positionals: [
      Positional("FORM", .choice("FORM", ["promela"]), .one, "What is written: promela"),
      Positional("FILE", .file, .one, "The topology file; - is standard input"),
    ],
    examples: [
      ("orchestrator export promela topologies/lift.yaml", "The lift as a model for SPIN")
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    var settings = ExplorationSettings()
    settings.time = arguments.duration("time")
    let loaded = try LoadedTopology.load(TopologyInput(argument: arguments.positionals[1]))
    let meter = ProgressMeter(console)
    let explorer = TopologyExplorer(loaded, loaded.topology.explore, settings)
    let exported = try await explorer.promela { meter.show($0) }
    try console.write(exported.text)
    guard exported.report.verdict.degree == .incomplete else { return .success }
    for remark in exported.report.verdict.remarks where remark.effect == .incomplete {
      console.warning("the model is not complete: \(remark.message)")
    }
    return .incomplete
  }
}
