import PipeRuntime

/// The verb `orchestrator reset`.
struct Reset: Verb {
  let description = VerbDescription(
    "reset", "Deletes the journals of nodes, which then start in their initial states",
    discussion:
      "Resets only nodes that are not running. If one of the nodes is running, no node is reset. "
      + "On a terminal, asks for confirmation if accepted work would be lost: events in the "
      + "outbox, postponed events, dead letters or running effects. Also asks if a journal cannot "
      + "be read. Scripts are not asked.",
    options: [
      .topology,
      Option("all", "a", "Resets every node of the topology"),
      Option("yes", "y", "Does not ask for confirmation"),
    ],
    positionals: [Positional("NODE", .node, .any, "The nodes")],
    examples: [
      ("orchestrator reset door", "Deletes the journal of the stopped node 'door'"),
      ("orchestrator reset --all -p elevator", "Deletes all state of a topology that is down"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    try arguments.requireLocalTopology("'orchestrator reset' deletes journals")
    let directories = try StoredTopology.findDirectories(arguments, requiredContent: "journals")
    let nodes = try selectNodes(arguments, directories)
    try await checkNoneIsRunning(nodes, directories)
    // While this process holds the locks, no node can start. The locks are released at the end of
    // the command.
    let journals = try nodes.map { try lockJournal($0, directories) }
    try checkNoDecisionIsLost(to: nodes, directories)
    let losses = journals.map(DataLoss.init)
    let nodesWithLosses = zip(nodes, losses).filter { !$0.1.isHarmless }
    if !nodesWithLosses.isEmpty, console.canPrompt, !arguments.contains(option: "yes") {
      for (node, loss) in nodesWithLosses { console.note("\(node): \(loss)") }
      guard try console.confirm("Delete these journals permanently?") else {
        throw CommandError("cancelled: nothing was deleted")
      }
    }
    for (journal, loss) in zip(journals, losses) {
      try journal.remove()
      try console.print("\(journal.node): \(loss.isAbsent ? "has no journal" : "deleted \(loss)")")
    }
    return .success
  }

  private func selectNodes(
    _ arguments: ParsedArguments, _ directories: RuntimeDirectories
  ) throws -> [String] {
    let namedNodes = NodeShard.processes(
      of: arguments.positionals, among: directories.nodesWithJournals)
    guard namedNodes.isEmpty == arguments.contains(option: "all") else {
      throw CommandError(
        "name the nodes, or use --all\nTry 'orchestrator reset --help'.", code: .usage)
    }
    if namedNodes.isEmpty { return directories.nodesWithJournals }
    for node in namedNodes { try directories.checkIsKnown(node) }
    return namedNodes.enumerated().filter { !namedNodes[..<$0.offset].contains($0.element) }.map(
      \.element)
  }

  /// Throws an error if a node is active. This check is also needed for nodes that wait for their
  /// restart: such a node does not hold the lock of its journal, but would start soon.
  private func checkNoneIsRunning(_ nodes: [String], _ directories: RuntimeDirectories) async throws
  {
    guard RunningTopology.find(directories) != nil else { return }
    let client = try TopologyClient.attach(to: directories.topology)
    defer { client.close() }
    let directory = try await client.directory()
    let active = nodes.compactMap { directory[node: $0] }
      .filter { !["stopped", "completed", "failed"].contains($0.phase) }
    guard let first = active.first else { return }
    let names = active.map(\.name).joined(separator: " ")
    throw CommandError(
      "node '\(first.name)' is \(first.phase); only nodes that do not run can be reset: run "
        + "'orchestrator stop \(names)' first")
  }

  /// Throws an error if a composite's journal has a decision that a participant in doubt still
  /// needs. The participant asks the composite for the outcome. After a reset, the composite would
  /// answer that the event was aborted, even if other participants have applied the event.
  private func checkNoDecisionIsLost(to nodes: [String], _ directories: RuntimeDirectories) throws {
    let journalPaths = JournalPaths(in: directories)
    func snapshot(_ node: String) -> JournalSnapshot? {
      try? JournalReader(journalPaths[node], node: node).snapshot(limit: 0)
    }
    let composites = nodes.filter { snapshot($0)?.machine == JournalSnapshot.compositeMachine }
    guard let composite = composites.first else { return }
    for node in directories.nodesWithJournals where !nodes.contains(node) {
      guard let prepared = snapshot(node)?.prepared else { continue }
      throw CommandError(
        "node '\(node)' is in doubt about synchronized event \(prepared.transaction), "
          + "\(prepared.event.text) of composite '\(prepared.composite)': without the journal "
          + "of '\(composite)', '\(node)' would abort the event even if other participants have "
          + "applied it; run both nodes until the decision is known, and then stop them "
          + "gracefully, or reset '\(node)' as well; nothing was deleted")
    }
  }

  private func lockJournal(_ node: String, _ directories: RuntimeDirectories) throws -> JournalFiles
  {
    do {
      return try JournalFiles(JournalPaths(in: directories)[node], node: node)
    } catch {
      guard case .locked(_, let pid) = error else { throw error }
      throw CommandError(
        "node '\(node)' runs as process \(pid.map(String.init) ?? "?"); only nodes that do "
          + "not run can be reset: stop the node first, with 'orchestrator down' if its "
          + "topology runs in the background")
    }
  }
}

/// The data that would be lost if a journal were deleted.
private enum DataLoss: CustomStringConvertible {
  case absent
  case known(JournalSnapshot)
  case unreadable(JournalError)

  init(_ files: JournalFiles) {
    do {
      self = .known(try JournalReader(files.path, node: files.node).snapshot(limit: 0))
    } catch {
      if case .missing = error { self = .absent } else { self = .unreadable(error) }
    }
  }

  var isAbsent: Bool { if case .absent = self { true } else { false } }

  /// Whether the journal can be deleted without losing unfinished work that the node has accepted.
  var isHarmless: Bool {
    switch self {
    case .absent: true
    case .known(let snapshot): snapshot.pending.isEmpty
    case .unreadable: false
    }
  }

  var description: String {
    switch self {
    case .absent: return "nothing"
    case .known(let snapshot):
      guard let last = snapshot.records.last else { return "a journal without a state" }
      let state = last.state.stateText(fields: snapshot.stateFields)
      return
        (["version \(last.version) in state \(state.printable.cut(to: 60))"]
        + snapshot.pending.parts).joined(separator: ", ")
    case .unreadable(let error): return "a journal that cannot be read (\(error))"
    }
  }
}
