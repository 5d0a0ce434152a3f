import PipeRuntime

/// `orchestrator schema`
struct Schema: Verb {
  let description = VerbDescription(
    "schema", "Prints the JSON Schema of topology files, for editors",
    examples: [
      (
        "orchestrator schema > topology.schema.json",
        "For '# yaml-language-server: $schema=' in a topology file"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try console.write(TopologySchema.text)
    return .success
  }
}
