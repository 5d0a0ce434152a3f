import PipeJournal
import PipeMachines
import PipeSystem
import PipeWire

/// The journal of a process that coordinated one of a coordinator's composites before the topology
/// file was changed. No other process opens it. Events that it had not sent are lost, and are
/// reported as lost.
struct FormerCoordinator {
  let name: String
  private let journal: Journal
  /// The pipes with events that were not acknowledged.
  private let sent: [String: JournalContents.Sent]
  /// The numbers of the steps that were received and not taken.
  private let received: [Int64]

  /// Returns the former coordinators that have left a journal.
  static func all(
    of composites: [CompositePlan], coordinatedBy node: String, beside journal: Journal,
    log: NodeLog
  ) -> [FormerCoordinator] {
    composites.map(\.name).filter { $0 != node }.compactMap { name in
      do { return try FormerCoordinator(name, beside: journal) } catch {
        log.warning(
          "composite '\(name)' was coordinated by a process of the same name, and the unsent "
            + "events of that process cannot be read: \(error)")
        return nil
      }
    }
  }

  private init?(_ name: String, beside currentJournal: Journal) throws {
    let path = currentJournal.path(ofNode: name)
    guard FileSystem.exists(path),
      try JournalReader(path, node: name).machine == JournalSnapshot.compositeMachine
    else { return nil }
    var identity = currentJournal.identity
    identity.node = name
    // Opening takes the journal's lock: the former coordinator does not run.
    journal = try Journal(path, identity: identity, durability: currentJournal.durability)
    self.name = name
    sent = journal.contents?.sent.filter { !$0.value.events.isEmpty } ?? [:]
    received = journal.contents?.consumed.values.flatMap { $0.postponed.map(\.id) } ?? []
    journal.forgetContents()
  }

  /// Reports the events that are lost with the journal, and removes them: if the file is changed
  /// back, they are not sent late.
  /// - Parameter outs: The pipes that start at the composites now.
  /// - Returns: The number of lost events, by the names of their pipes.
  func dispose(
    to outs: [NodeConfiguration.Out], log: NodeLog
  ) throws -> [String: UInt64] {
    let receivers = try journal.receivers()
    var lost: [String: UInt64] = [:]
    for (pipe, sent) in sent {
      guard let receiver = receivers[pipe]?.name ?? outs.first(where: { $0.name == pipe })?.receiver
      else { continue }
      let taken = try OutPipeRecord.taken(
        of: pipe, stream: journal.stream, by: receiver, beside: journal)
      guard sent.queued > max(taken, sent.acknowledged) else { continue }
      let count = sent.queued - max(taken, sent.acknowledged)
      lost[pipe] = count
      log.warning(
        "pipe '\(pipe)': \(count) events from process '\(name)' to '\(receiver)' are lost: by the "
          + "topology file, this process now coordinates the composites of process '\(name)'; to "
          + "keep process '\(name)', list '\(name)' before these composites in the topology file")
    }
    let components = try journal.components()
    guard !sent.isEmpty || !components.isEmpty || !received.isEmpty else { return lost }
    try journal.record {
      for (pipe, sent) in sent {
        try journal.sent(pipe, queued: sent.queued, acknowledged: sent.queued, trims: true)
      }
      for name in components.keys { try journal.componentRemoved(name) }
      for id in received { try journal.postponedRemoved(id) }
    }
    return lost
  }
}
