import PipeRuntime

/// The verb `orchestrator config`.
struct Config: Verb {
  let description = VerbDescription(
    "config", "Prints a topology file with all defaults filled in",
    discussion:
      "Replaces variables, resolves merge keys and omits sections whose names begin with x-. The "
      + "output is a valid topology file, in which $$ stands for a dollar sign.",
    options: [
      Option(
        "output", "o", value: .choice("FORMAT", ["yaml", "json"]), "Output format. Default: yaml")
    ],
    positionals: [
      Positional(
        "FILE", .file, .optional,
        "The topology file; - reads standard input. Default: topology.yaml")
    ],
    examples: [
      (
        "orchestrator config topologies/elevator.yaml",
        "Prints the resolved topology file of the elevator"
      )
    ])

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

/// The verb `orchestrator schema`.
struct Schema: Verb {
  let description = VerbDescription(
    "schema", "Prints the JSON Schema of topology files, for editors",
    options: [Option("deployment", "Prints the JSON Schema of deployment files instead")],
    examples: [
      (
        "orchestrator schema > topology.schema.json",
        "Writes the schema for '# yaml-language-server: $schema=' in topology files"
      ),
      (
        "orchestrator schema --deployment > deployment.schema.json",
        "Writes the schema for deployment files"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try console.write(
      arguments.contains(option: "deployment") ? DeploymentFile.schema : TopologySchema.text)
    return .success
  }
}
