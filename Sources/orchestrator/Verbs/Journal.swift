import PipeLogs
import PipeRuntime
import PipeSupervision

/// `orchestrator journal`
struct ShowJournal: Verb {
  let description = VerbDescription(
    "journal", "Shows what a node's journal holds",
    discussion:
      "The journal is read as it is, whether the node runs or not. What is in it, table by table, is "
      + "in docs/JOURNAL.md. Times are local on a terminal, and UTC in pipes and JSON.",
    options: [
      .topology, .output,
      Option(
        "lines", "n", value: .count("N"),
        "The last N records, and the first N waiting events of each pipe. Default: 10"),
    ],
    positionals: [Positional("NODE", .node, .one, "The node")],
    examples: [
      ("orchestrator journal door", "State, pipes, effects and the last ten records"),
      ("orchestrator journal door -n 1000 -o json", "Every record that is kept, as JSON"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try arguments.expectHere("'orchestrator journal' reads the nodes' journals")
    let directories = try TopologyChoice.withState(arguments, wanted: "journals")
    let node = arguments.positionals[0]
    let reader = try directories.journalReader(of: node)
    let limit = arguments.count("lines") ?? 10
    let page = JournalPage(snapshot: try reader.snapshot(limit: limit), limit: limit)
    try console.print(page.record, as: arguments.format, lines: page.lines(console.style))
    return .success
  }
}

extension RuntimeDirectories {
  /// Opens a node's journal.
  func journalReader(of node: String) throws -> JournalReader {
    do {
      return try JournalReader(JournalPlaces(in: self)[node], node: node)
    } catch {
      if case .missing = error { try checkIsKnown(node) }
      throw error
    }
  }

  /// The nodes that have a journal, or what is left of one.
  var nodesWithJournals: [String] {
    Set(JournalReader.nodes(in: journals) + JournalPlaces(in: self).nodesElsewhere).sorted()
  }

  /// Throws where nothing tells that the topology has, or had, a node of this name.
  func checkIsKnown(_ node: String) throws {
    let known = Set(nodesWithJournals + LogReader.nodes(in: logs))
      .subtracting(["orchestrator"]).sorted()
    guard !known.contains(node) else { return }
    throw CommandError(
      "topology '\(topology)' has no node '\(node)' that has run here"
        + (known.isEmpty ? "" : Suggestion.among(known, like: node, verb: "there are")),
      code: .usage)
  }
}
