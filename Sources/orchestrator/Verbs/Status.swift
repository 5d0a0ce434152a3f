import PipeRuntime

/// The verb `orchestrator status`.
struct Status: Verb {
  let description = VerbDescription(
    "status", "Shows the status of a topology and its nodes",
    discussion:
      "The second line says what is wrong: the node that keeps other nodes waiting, and the "
      + "nodes that wait; or 'all well'. Exit code 0: all nodes are running. 1: a node is not running. 3: the topology is not "
      + "running, or its orchestrator was killed and its nodes are orphaned.",
    options: [.topology, .output],
    positionals: [Positional("NODE", .node, .any, "The nodes. Default: all")],
    examples: [("orchestrator status door && echo fine", "Checks one node")])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let directory: TopologyDirectory
    do {
      directory = try await arguments.onTopology { try await $0.directory() }
    } catch TopologyClientError.orphaned(let name, _, _, _) {
      let directories = try RuntimeDirectories(topology: name)
      // Since the first check, the nodes may have ended, or a new orchestrator may have adopted
      // them.
      guard let orphan = OrphanedTopology.find(directories) else {
        throw CommandError("topology '\(name)' changed during the request; try again")
      }
      return try printOrphan(orphan, arguments, console)
    }
    let nodes = try directory.nodes(named: arguments.positionals)
    let now = WallClock.nanoseconds
    let health = TopologyHealth(directory, at: now)
    let record: JSONValue = [
      "topology": .string(directory.topology), "file": .string(directory.file),
      "pid": .integer(Int64(directory.pid)), "phase": .string(directory.phase),
      "running": .bool(directory.isRunning),
      "health": health.record,
      "nodes": .array(nodes.map { $0.record(now: now) }),
    ]
    let heading =
      "\(directory.topology): \(directory.phase), orchestrator pid \(directory.pid), "
      + directory.file
    try console.print(
      record, as: arguments.format,
      lines: [heading]
        + (arguments.positionals.isEmpty
          ? console.style.lines(of: health, topology: directory.topology) : [])
        + Self.lines(of: nodes, console.style))
    return nodes.allSatisfy(\.isRunning) ? .success : .failure
  }

  private static func lines(of nodes: [NodeInformation], _ style: Style) -> [String] {
    let width = nodes.map(\.name.displayWidth).max() ?? 0
    let phaseWidth = nodes.map(\.phase.displayWidth).max() ?? 0
    return nodes.map { node in
      let phase = style.colorByPhase(
        node.phase, node.phase.padded(to: node.stateText.isEmpty ? 0 : phaseWidth))
      let version = node.versionText.map { "  (\($0))" } ?? ""
      let state = node.stateText.isEmpty ? "" : "  " + node.stateText.printable + version
      return "  \(node.name.padded(to: width))  \(phase)\(state)"
    }
  }

  private func printOrphan(
    _ orphan: OrphanedTopology, _ arguments: ParsedArguments, _ console: Console
  ) throws -> ExitCode {
    let record: JSONValue = [
      "topology": .string(orphan.name), "file": .optional(orphan.topologyFile),
      "deployment": .optional(orphan.deploymentFile),
      "pid": .null, "phase": "orphaned", "running": false,
      "nodes": .array(
        orphan.nodes.map {
          [
            "node": .string($0.node), "pid": .integer(Int64($0.process.pid)),
            "phase": "orphaned", "running": false,
          ]
        }),
    ]
    let heading =
      "\(orphan.name): \(orphan.status); '\(orphan.upCommand)' adopts the nodes, "
      + "'orchestrator down -p \(orphan.name)' ends them"
    let width = orphan.nodes.map(\.node.displayWidth).max() ?? 0
    let nodes = orphan.nodes.map { "  \($0.node.padded(to: width))  pid \($0.process.pid)" }
    try console.print(record, as: arguments.format, lines: [heading] + nodes)
    return .notRunning
  }
}
