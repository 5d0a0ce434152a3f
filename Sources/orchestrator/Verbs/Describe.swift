import PipeRuntime

/// `orchestrator describe`
struct Describe: Verb {
  let description = VerbDescription(
    "describe", "Shows nodes' machines: states, events and ports",
    options: [
      .topology,
      .output,
    ],
    positionals: [
      Positional("NODE", .node, .any, "The nodes. Default: all")
    ],
    examples: [
      (
        "orchestrator describe door -o json",
        "What the door says of itself"
      )
    ])

  func run(_ arguments: ParsedArguments, console: Console) throws -> ExitCode {
    let nodes = arguments.positionals
    let (found, machines, pipes) = try arguments.onTopology { topology in
      let directory = try await topology.directory()
      let found = try directory.nodes(named: nodes)
      var machines: [String: MachineDescription] = [:]
      for node in found {
        do {
          machines[node.name] = try await topology.describe(node.name)
        } catch TopologyClientError.failed {
          // It has not described itself: there is its status alone.
        }
      }
      return (found, machines, directory.pipes)
    }
    let pages = found.map { node in
      NodePage(node: node, machine: machines[node.name], pipes: pipes)
    }
    switch arguments.format {
    case .text:
      for (index, page) in pages.enumerated() {
        if index > 0 { try console.print() }
        for line in page.lines(style: console.style) { try console.print(line) }
      }
    case .json: try console.print(.array(pages.map(\.record)))
    case .jsonl: for page in pages { try console.print(page.record) }
    }
    return .success
  }
}
