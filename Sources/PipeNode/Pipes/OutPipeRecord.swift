import PipeJournal
import PipeWire

/// The data of an outbound pipe in its node's journal.
///
/// If the topology file names a new receiver for the pipe, the former receiver may have applied
/// events without acknowledging them. The former receiver's journal contains the number of the last
/// accepted event. The new receiver gets only later events.
struct OutPipeRecord {
  /// The recorded receiver of the pipe; `nil` if the journal contains no receiver.
  var receiver: JournalContents.Receiver?
  var progress: JournalContents.OutPipeProgress?

  /// Returns the recorded data of a node's durable pipes, by the names of the pipes. If the
  /// receiver of a pipe has changed, first records the new receiver.
  /// - Parameter contents: The contents of the journal; `nil` if the node has never entered a
  ///   state.
  static func all(
    of configurations: [NodeConfiguration.Out], in journal: Journal,
    _ contents: JournalContents?, log: NodeLog
  ) throws -> [String: OutPipeRecord] {
    let receivers = try journal.recordedReceivers()
    var pipes: [String: OutPipeRecord] = [:]
    for configuration in configurations where configuration.isDurable {
      let name = configuration.name
      var pipe = OutPipeRecord(
        receiver: receivers[name], progress: contents?.outPipeProgressByPipe[name])
      if let former = pipe.receiver, former.name != configuration.receiver {
        try pipe.redirect(
          name, from: former.name, to: configuration.receiver, in: journal, log: log)
      }
      pipes[name] = pipe
    }
    return pipes
  }

  private mutating func redirect(
    _ name: String, from former: String, to receiver: String, in journal: Journal, log: NodeLog
  ) throws {
    if var progress, !progress.events.isEmpty {
      let taken = try Self.lastAcceptedNumber(
        of: name, stream: journal.stream, by: former, beside: journal)
      let count = Int(clamping: taken - min(taken, progress.lastAcknowledged))
      progress.lastAcknowledged += UInt64(min(count, progress.events.count))
      progress.events.removeFirst(min(count, progress.events.count))
      self.progress = progress
      log.note(
        "pipe '\(name)' was redirected from '\(former)' to '\(receiver)': '\(former)' has accepted "
          + "the events up to \(progress.lastAcknowledged), and the next \(progress.events.count) events go "
          + "to '\(receiver)'")
    }
    let next = JournalContents.Receiver(
      receiver, lastNumberBeforeRedirection: progress?.lastAcknowledged ?? 0)
    let sent = progress
    try journal.record {
      try journal.recordReceiver(of: name, next)
      guard let sent else { return }
      try journal.recordSendProgress(
        of: name, queued: sent.lastQueuedNumber, acknowledged: sent.lastAcknowledged, trims: true)
    }
    self.receiver = next
  }

  /// Returns the number of the last event that the receiver's journal has recorded. Returns 0 if
  /// the receiver has no journal, because the receiver's state is then lost.
  static func lastAcceptedNumber(
    of pipe: String, stream: UInt64, by receiver: String, beside journal: Journal
  ) throws -> UInt64 {
    do {
      return try JournalReader(journal.path(ofNode: receiver), node: receiver).lastAcceptedNumber(
        of: pipe, stream: stream,
        caller: RequestID(pipe: pipe, stream: stream, sequence: 0).caller)
    } catch JournalError.missing {
      return 0
    } catch {
      throw NodeSetupError(
        "pipe '\(pipe)' was redirected from '\(receiver)', and the last event that '\(receiver)' "
          + "accepted is unknown: \(error)")
    }
  }
}
