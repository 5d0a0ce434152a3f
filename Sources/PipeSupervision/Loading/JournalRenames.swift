import PipeClient
import PipeJournal
import PipeSystem
import PipeWire

/// The changes of names in journals that a plan requires: its file gives nodes, composites or pipes
/// new names. Source: docs/decisions/0101.
package struct JournalRenames: Sendable {
  /// A process whose journal is affected.
  private struct Process: Sendable {
    let durability: Durability
    let journal: RenameRecord.Journal
  }

  private let plan: LaunchPlan
  private let directories: RuntimeDirectories
  private let processes: [Process]
  /// The changes that the journals require.
  package let changes: NameChanges
  /// The processes that have a journal under their present names.
  private let existing: Set<String>

  /// Whether a name in a journal changes.
  package var areNeeded: Bool { !changes.isEmpty }

  /// Whether a name may change when the nodes have ended. A running node may record a former name
  /// for the first time after ``changes`` were determined.
  var mayBecomeNeeded: Bool { !plan.nameChanges.isEmpty }

  /// - Throws: ``JournalError``, or ``RenameRefusal`` if names cannot be changed.
  package init(_ plan: LaunchPlan, in directories: RuntimeDirectories) throws {
    self.plan = plan
    self.directories = directories
    let all = plan.nameChanges
    var changes = NameChanges()
    var processes: [Process] = []
    for node in plan.nodes where !all.isEmpty && node.isAffected(by: all) {
      guard let path = node.information.journal else { continue }
      guard !node.isRemote else { throw RenameRefusal.remote(node: node.name) }
      guard let journal = try Self.journal(of: node, at: path, all) else { continue }
      let found = try JournalNames(inJournal: journal.path, of: journal.node).occurring(in: all)
      guard !found.isEmpty else { continue }
      processes.append(Process(durability: node.information.durability, journal: journal))
      changes.members.merge(found.members) { first, _ in first }
      changes.pipes.merge(found.pipes) { first, _ in first }
    }
    existing = Set(
      plan.nodes.filter { $0.information.journal.map(FileSystem.exists) == true }.map(\.name))
    self.changes = changes
    self.processes = processes
    if !all.isEmpty { try Self.checkShards(of: plan) }
  }

  /// Returns the journal of a node under its present or a former name; `nil` if there is none.
  private static func journal(
    of node: LaunchPlan.Node, at path: String, _ changes: NameChanges
  ) throws -> RenameRecord.Journal? {
    let directory = FileSystem.parentDirectory(of: path)
    let formerNames = changes.formerNames(of: node.name).filter {
      FileSystem.exists(RuntimeDirectories.journal(of: $0, in: directory))
    }
    let names = (FileSystem.exists(path) ? [node.name] : []) + formerNames
    guard let name = names.first else { return nil }
    if names.count > 1 {
      throw RenameRefusal.twoJournals(
        node: node.name, former: formerNames.last ?? name, other: name)
    }
    return .init(
      node: name, path: RuntimeDirectories.journal(of: name, in: directory), target: path)
  }

  /// Checks that the number of shards of each renamed node stays the same.
  private static func checkShards(of plan: LaunchPlan) throws {
    for (name, count) in plan.shardCounts {
      let first = count == 1 ? name : NodeShard(of: name, index: 0, count: count).name
      guard let path = plan[first]?.information.journal else { continue }
      let formerNodes = Set(
        plan.processes(of: [name]).flatMap { plan.nameChanges.formerNames(of: $0) }
          .map { NodeShard(named: $0, count: .max)?.node ?? $0 })
      let directory = FileSystem.parentDirectory(of: path)
      for former in JournalReader.nodesWithJournals(in: directory)
      where formerNodes.contains(NodeShard(named: former, count: .max)?.node ?? former) {
        let recorded = try ShardMove.shardCount(
          ofJournal: RuntimeDirectories.journal(of: former, in: directory), of: former)
        guard recorded == nil || recorded == count else {
          throw RenameRefusal.shards(node: name, former: recorded ?? 1, count: count)
        }
      }
    }
  }

  /// Changes the names that the journals contain now. If this fails, the journals are restored. No
  /// process of the affected nodes may run.
  /// - Parameters:
  ///   - note: Called with a line of text for each change.
  ///   - body: Changes that must succeed as well before the rename is permanent.
  /// - Throws: ``RenameRefusal`` if no journal was changed. After any other error, the change is
  ///   incomplete, and ``RenameRecord/rollBack(in:)`` must succeed before a process can start.
  package func run(note: (String) -> Void, afterwards body: () throws -> Void = {}) throws {
    let current: JournalRenames
    do {
      current = try JournalRenames(plan, in: directories)
    } catch let refusal as RenameRefusal {
      throw refusal
    } catch {
      throw RenameRefusal.failed("\(error)")
    }
    guard current.areNeeded else { return try body() }
    try current.change(note: note, afterwards: body)
  }

  private func change(note: (String) -> Void, afterwards body: () throws -> Void) throws {
    do {
      let journals = processes.map(\.journal)
      try RenameRecord(journals: journals).begin(in: directories)
      for process in processes {
        try JournalNames.change(
          changes, inJournal: process.journal.path, of: process.journal.node,
          durability: process.durability, existing: existing)
        Failpoint.hit(.renameWritten)
      }
      for journal in journals where journal.target != journal.path {
        try JournalFiles(journal.path, node: journal.node).move(to: journal.target)
        Failpoint.hit(.renameMoved)
      }
      try body()
    } catch {
      try RenameRecord.rollBack(in: directories)
      throw RenameRefusal.failed("\(error)")
    }
    try RenameRecord.commit(in: directories)
    for line in changes.lines { note(line) }
  }
}

extension LaunchPlan.Node {
  /// Whether the journal of the node can contain a name that changes.
  fileprivate func isAffected(by changes: NameChanges) -> Bool {
    let members = Set(changes.members.values)
    let pipes = Set(changes.pipes.values.map(\.name))
    let known =
      [name] + configuration.outs.map(\.receiver) + composites.flatMap { [$0.name] + $0.nodes }
      + (configuration.participant.map { [$0.coordinator] + $0.events.values.joined() } ?? [])
    return !members.isDisjoint(with: known)
      || !pipes.isDisjoint(with: configuration.outs.map(\.name) + configuration.ins.map(\.name))
  }
}

/// The reason why names cannot be changed. No journal was changed.
package enum RenameRefusal: Error, Hashable, Sendable, CustomStringConvertible {
  /// Two journals would have the same name.
  case twoJournals(node: String, former: String, other: String)
  /// The journal is on another host.
  case remote(node: String)
  /// The number of shards changes, too.
  case shards(node: String, former: Int, count: Int)
  /// The journals are as before.
  case failed(String)
  /// An earlier rename is neither complete nor undone.
  case incomplete

  package var description: String {
    switch self {
    case .twoJournals(let node, let former, let other):
      "node '\(node)' cannot have the journal of '\(former)', because '\(other)' has a journal, too; "
        + "remove '\(former)' from 'was' to keep the journal of '\(other)', or delete that journal "
        + "with 'orchestrator reset \(other)'"
    case .remote(let node):
      "'was' cannot change names in the journal of node '\(node)', which is on another host; keep the "
        + "former names"
    case .shards(let node, let former, let count):
      "the former name of node '\(node)' has \(former) shard\(former == 1 ? "" : "s"), and the file "
        + "has 'shards: \(count)'; apply the new name with the former number of shards first, and "
        + "then the new number"
    case .incomplete:
      "names in the journals were being changed, and neither that change nor its undoing is complete; "
        + "run 'orchestrator down' and then 'orchestrator up FILE'"
    case .failed(let reason): "the names in the journals cannot be changed: \(reason)"
    }
  }
}
