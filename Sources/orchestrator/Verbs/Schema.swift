import PipeRuntime

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
