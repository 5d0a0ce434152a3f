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

/// `orchestrator schema`
struct Schema: Verb {
  let description = VerbDescription(
    "schema", "Prints the JSON Schema of topology files, for editors",
    options: [Option("deployment", "Prints that of deployment files instead")],
    examples: [
      (
        "orchestrator schema > topology.schema.json",
        "For '# yaml-language-server: $schema=' in a topology file"
      ),
      (
        "orchestrator schema --deployment > deployment.schema.json",
        "The same for a deployment file"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try console.write(arguments.flag("deployment") ? DeploymentFile.schema : TopologySchema.text)
    return .success
  }
}
