import PipeJournal
import PipeMachines
import PipeWire

/// The recorded data of a topology's nodes. For a topology on this host, the data comes from files,
/// even if the topology is not running. For a topology on another host, the data comes from the
/// topology's orchestrator.
package enum TopologyRecords: Sendable {
  case files(RuntimeDirectories)
  case orchestrator(TopologyClient)

  /// Returns the dead letters in the journal of a node, oldest first.
  /// - Parameter path: The path of the journal; `nil` means the path that the last run on this host
  ///   recorded.
  /// - Returns: The dead letters, and the number of refused events that were not stored as dead
  ///   letters because there were too many.
  /// - Throws: ``JournalError``, or ``TopologyClientError``.
  package func deadLetters(
    of node: String, journal path: String? = nil
  ) async throws -> (deadLetters: [DeadLetter], lost: UInt64) {
    var deadLetters: [DeadLetter] = []
    while true {
      let page: DeadLetterPage
      let last = deadLetters.last?.id ?? 0
      switch self {
      case .files(let directories):
        let path = path ?? JournalPaths(in: directories)[node]
        page = try DeadLetterPage(of: node, journal: path, after: last)
      case .orchestrator(let client):
        page = try await client.command(.deadLetters(node: node, after: last)).extract {
          if case .deadLetters(let page) = $0 { page } else { nil }
        }
      }
      deadLetters += page.deadLetters
      if !page.hasMore || page.deadLetters.isEmpty { return (deadLetters, page.lostCount) }
    }
  }

  /// Returns the selected instances of a node with a `key`. The instances are sorted by their keys.
  /// - Throws: ``JournalError``, or ``TopologyClientError``.
  package func instances(
    of node: String, _ selection: InstanceSelection
  ) async throws -> [RecordedInstance] {
    let shards = try await shards(of: node)
    if shards.isEmpty { return try await instancesOfProcess(node, selection) }
    var instances: [RecordedInstance] = []
    for shard in shards { instances += try await instancesOfProcess(shard, selection) }
    instances.sort { $0.key.text.utf8.lexicographicallyPrecedes($1.key.text.utf8) }
    return Array(instances.prefix(selection.limit))
  }

  /// Returns the names of a node's shards; an empty list if the node has one process.
  private func shards(of node: String) async throws -> [String] {
    switch self {
    case .files(let directories):
      let paths = JournalPaths(in: directories)
      let recorded = Set(
        JournalReader.nodesWithJournals(in: directories.journals) + paths.nodesWithExternalJournals)
      let processes = NodeShard.processes(of: [node], among: recorded.sorted())
      return processes == [node] ? [] : processes
    case .orchestrator(let client):
      return try await client.directory(fresh: false).shards(of: node).map(\.name)
    }
  }

  private func instancesOfProcess(
    _ node: String, _ selection: InstanceSelection
  ) async throws -> [RecordedInstance] {
    var instances: [RecordedInstance] = []
    var rest = selection
    while true {
      let page: InstancePage
      switch self {
      case .files(let directories):
        page = try InstancePage(of: node, journal: JournalPaths(in: directories)[node], rest)
      case .orchestrator(let client):
        page = try await client.command(.instances(node: node, rest)).extract {
          if case .instances(let page) = $0 { page } else { nil }
        }
      }
      instances += page.instances
      guard page.hasMore, let last = page.instances.last, instances.count < selection.limit else {
        return instances
      }
      rest.after = last.key.text
      rest.limit = selection.limit - instances.count
    }
  }

  /// Returns the contents of a node's journal.
  /// - Parameter limit: The maximum number of records, and of events for each pipe.
  /// - Throws: ``JournalError``, or ``TopologyClientError``.
  package func journal(of node: String, limit: Int) async throws -> JournalSnapshot {
    switch self {
    case .files(let directories):
      try JournalReader(JournalPaths(in: directories)[node], node: node).snapshot(limit: limit)
    case .orchestrator(let client):
      try await client.command(.journal(node: node, limit: limit)).extract { answer in
        if case .journal(let value) = answer {
          try? value.decode(JournalSnapshot.self)
        } else {
          nil
        }
      }
    }
  }

  /// Returns the logs of some nodes, or of all nodes if `nodes` is `nil`.
  /// - Parameter follows: Whether to also return entries that are written later.
  package func logs(of nodes: [String]? = nil, follows: Bool = false) -> TopologyLogs {
    switch self {
    case .files(let directories):
      TopologyLogs(directory: directories.logs, nodes: nodes, follows: follows)
    case .orchestrator(let client): TopologyLogs(client, nodes: nodes, follows: follows)
    }
  }
}

extension InstancePage {
  /// The maximum total size of the states in a page; a page with a single instance may be larger.
  /// Unit: bytes.
  private static let byteLimit = 1 << 20
  /// The maximum number of instances in a page.
  private static let instanceLimit = 2_000

  /// Reads a page from a journal. The page contains the first of the selected instances.
  package init(
    of node: String, journal path: String, _ selection: InstanceSelection
  ) throws(JournalError) {
    var selection = selection
    selection.limit = min(selection.limit, Self.instanceLimit)
    let found = try InstanceReader(path, node: node).instances(selection)
    var byteCount = 0
    let fitting = found.prefix { instance in
      byteCount += instance.state.count + 2 * instance.key.text.utf8.count + 100
      return byteCount <= Self.byteLimit
    }
    let instances = fitting.isEmpty ? Array(found.prefix(1)) : Array(fitting)
    self.init(
      instances: instances,
      hasMore: instances.count < found.count || found.count == selection.limit)
  }
}

extension DeadLetterPage {
  /// The maximum size of a page; a page with a single dead letter may be larger. Unit: bytes.
  private static let byteLimit = 1 << 20
  /// The maximum number of dead letters in a page.
  private static let deadLetterLimit = 200

  /// Reads a page from a journal. The page begins with the first dead letter whose number is above
  /// `id`.
  package init(of node: String, journal path: String, after id: UInt64) throws(JournalError) {
    let reader = try JournalReader(path, node: node)
    let found = try reader.deadLetters(after: id, limit: Self.deadLetterLimit)
    var byteCount = 0
    let fitting = found.prefix { deadLetter in
      byteCount += deadLetter.byteCount
      return byteCount <= Self.byteLimit
    }
    let deadLetters = fitting.isEmpty ? Array(found.prefix(1)) : Array(fitting)
    self.init(
      deadLetters: deadLetters,
      hasMore: deadLetters.count < found.count || found.count == Self.deadLetterLimit,
      lostCount: try reader.lostDeadLetterCount())
  }
}
