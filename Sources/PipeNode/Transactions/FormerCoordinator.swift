import PipeJournal
import PipeMachines
import PipeSystem
import PipeWire

/// The former coordinator of a composite that the current coordinator has taken over after a change
/// of the topology file. No process uses the former coordinator's journal any more, so this type
/// reads that journal. Events that the former coordinator had not sent are lost, and are reported
/// as lost.
struct FormerCoordinator {
  let name: String
  private let journal: Journal
  /// The progress of the pipes with unacknowledged events, by the names of the pipes.
  private let progressByPipe: [String: JournalContents.OutPipeProgress]
  /// The numbers of the step reports that were received, but whose steps were not processed.
  private let unprocessedReportIDs: [Int64]

  /// Returns the former coordinators whose journals still exist.
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
    // The journal can be opened only if no other process holds its lock. So the former coordinator
    // is not running.
    journal = try Journal(path, identity: identity, durability: currentJournal.durability)
    self.name = name
    progressByPipe =
      journal.contents?.outPipeProgressByPipe.filter { !$0.value.events.isEmpty } ?? [:]
    unprocessedReportIDs =
      journal.contents?.inPipeProgressByPipe.values.flatMap { $0.postponedEvents.map(\.id) } ?? []
    journal.forgetContents()
  }

  /// Reports the lost events, and deletes them from the journal. So the events are not sent late if
  /// the topology file is changed back.
  /// - Parameter outs: The outbound pipes that the composites have now.
  /// - Returns: The number of lost events, by the names of the pipes.
  func dispose(
    to outs: [NodeConfiguration.Out], log: NodeLog
  ) throws -> [String: UInt64] {
    let receivers = try journal.recordedReceivers()
    var lost: [String: UInt64] = [:]
    for (pipe, sent) in progressByPipe {
      guard let receiver = receivers[pipe]?.name ?? outs.first(where: { $0.name == pipe })?.receiver
      else { continue }
      let taken = try OutPipeRecord.lastAcceptedNumber(
        of: pipe, stream: journal.stream, by: receiver, beside: journal)
      guard sent.lastQueuedNumber > max(taken, sent.lastAcknowledged) else { continue }
      let count = sent.lastQueuedNumber - max(taken, sent.lastAcknowledged)
      lost[pipe] = count
      log.warning(
        "pipe '\(pipe)': \(count) events from process '\(name)' to '\(receiver)' are lost: by the "
          + "topology file, this process now coordinates the composites of process '\(name)'; to "
          + "keep process '\(name)', list '\(name)' before these composites in the topology file")
    }
    let components = try journal.components()
    guard !progressByPipe.isEmpty || !components.isEmpty || !unprocessedReportIDs.isEmpty else {
      return lost
    }
    try journal.record {
      for (pipe, sent) in progressByPipe {
        try journal.recordSendProgress(
          of: pipe, queued: sent.lastQueuedNumber, acknowledged: sent.lastQueuedNumber, trims: true)
      }
      for name in components.keys { try journal.removeComponent(name) }
      for id in unprocessedReportIDs { try journal.removePostponedEvent(id) }
    }
    return lost
  }
}
