import PipeJournal
import PipeMachines
import PipeWire

/// The recorded data of a topology's nodes. It comes from the files of this host, whether the
/// topology runs or not, or from the orchestrator on another host.
package enum TopologyRecords: Sendable {
  case files(RuntimeDirectories)
  case orchestrator(TopologyClient)

  /// Returns the dead letters in the journal of a node, oldest first.
  /// - Parameter path: The journal's path, if it is known; otherwise this host's record has it.
  /// - Returns: The dead letters, and the number of refused events that did not become dead letters
  ///   because there were too many.
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
        page = try await client.command(.deadLetters(node: node, after: last)).take {
          if case .deadLetters(let page) = $0 { page } else { nil }
        }
      }
      deadLetters += page.deadLetters
      if !page.hasMore || page.deadLetters.isEmpty { return (deadLetters, page.lost) }
    }
  }

  /// Returns the selected instances of a keyed node, in the order of their keys.
  /// - Throws: ``JournalError``, or ``TopologyClientError``.
  package func instances(
    of node: String, _ selection: InstanceSelection
  ) async throws -> [RecordedInstance] {
    var found: [RecordedInstance] = []
    var rest = selection
    while true {
      let page: InstancePage
      switch self {
      case .files(let directories):
        page = try InstancePage(of: node, journal: JournalPaths(in: directories)[node], rest)
      case .orchestrator(let client):
        page = try await client.command(.instances(node: node, rest)).take {
          if case .instances(let page) = $0 { page } else { nil }
        }
      }
      found += page.instances
      guard page.hasMore, let last = page.instances.last, found.count < selection.limit else {
        return found
      }
      rest.after = last.key.text
      rest.limit = selection.limit - found.count
    }
  }

  /// Returns the contents of a node's journal.
  /// - Parameter limit: The maximum number of records, and of events of each pipe.
  /// - Throws: ``JournalError``, or ``TopologyClientError``.
  package func journal(of node: String, limit: Int) async throws -> JournalSnapshot {
    switch self {
    case .files(let directories):
      try JournalReader(JournalPaths(in: directories)[node], node: node).snapshot(limit: limit)
    case .orchestrator(let client):
      try await client.command(.journal(node: node, limit: limit)).take { answer in
        if case .journal(let value) = answer {
          try? value.decode(JournalSnapshot.self)
        } else {
          nil
        }
      }
    }
  }

  /// Returns the logs of some nodes, or of all nodes if `nodes` is `nil`.
  /// - Parameter follows: Whether to read entries that are written later, too.
  package func logs(of nodes: [String]? = nil, follows: Bool = false) -> TopologyLogs {
    switch self {
    case .files(let directories):
      TopologyLogs(directory: directories.logs, nodes: nodes, follows: follows)
    case .orchestrator(let client): TopologyLogs(client, nodes: nodes, follows: follows)
    }
  }
}

extension InstancePage {
  /// The maximum size of the states of a page, unless a single state is larger. Unit: bytes.
  private static let byteLimit = 1 << 20
  /// The maximum number of instances in a page.
  private static let instanceLimit = 2_000

  /// Reads the first of the selected instances in a journal.
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
  /// The maximum size of a page, unless a single dead letter is larger. Unit: bytes.
  private static let byteLimit = 1 << 20
  /// The maximum number of dead letters in a page.
  private static let deadLetterLimit = 200

  /// Reads the dead letters in a journal that have higher numbers than this.
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
      lost: try reader.lostDeadLetters())
  }
}
