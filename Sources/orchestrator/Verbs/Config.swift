import PipeRuntime

/// `orchestrator config`
struct Config: Verb {
  let description = VerbDescription(
    "config", "Prints a topology file with all defaults filled in",
    discussion:
      "Variables are put in, merge keys are merged, and sections x-… are left out. What is printed "
      + "is a topology file; a dollar in it is written $$.",
    options: [
      Option(
        "output", "o", value: .choice("FORMAT", ["yaml", "json"]), "The format. Default: yaml")
    ],
    positionals: [
      Positional(
        "FILE", .file, .optional,
        "The topology file; - is standard input. Default: topology.yaml here")
    ],
    examples: [("orchestrator config topologies/elevator.yaml", "What would be run")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let path = arguments.positionals.first ?? "topology.yaml"
    let topology = try TopologyReader.read(TopologyInput(argument: path)).topology.resolved
    if arguments.format == .json {
      try console.print(topology.json)
    } else {
      try console.write(topology.yaml)
    }
    return .success
  }
}
