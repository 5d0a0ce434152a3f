import PipeJournal
import PipeWire

/// The journal's records of a pipe that starts at the journal's node.
///
/// If the pipe has a new receiver, the former receiver may have taken events without being able to
/// acknowledge them. The former receiver's journal shows which. The new receiver does not get those
/// events.
struct OutPipeRecord {
  /// The recorded receiver of the pipe; `nil` if none is recorded.
  var receiver: JournalContents.Receiver?
  var sent: JournalContents.Sent?

  /// Returns the durable pipes of a node, by name. A changed receiver is recorded before any event
  /// is sent.
  /// - Parameter contents: The contents of the journal.
  static func all(
    of configurations: [NodeConfiguration.Out], in journal: Journal,
    _ contents: JournalContents?, log: NodeLog
  ) throws -> [String: OutPipeRecord] {
    let receivers = try journal.receivers()
    var pipes: [String: OutPipeRecord] = [:]
    for configuration in configurations where configuration.isDurable {
      let name = configuration.name
      var pipe = OutPipeRecord(
        receiver: receivers[name], sent: contents?.sent[name])
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
    if var sent, !sent.events.isEmpty {
      let taken = try Self.taken(of: name, stream: journal.stream, by: former, beside: journal)
      let count = Int(clamping: taken - min(taken, sent.acknowledged))
      sent.acknowledged += UInt64(min(count, sent.events.count))
      sent.events.removeFirst(min(count, sent.events.count))
      self.sent = sent
      log.note(
        "pipe '\(name)' was redirected from '\(former)' to '\(receiver)': '\(former)' has accepted "
          + "the events up to \(sent.acknowledged), and the next \(sent.events.count) events go "
          + "to '\(receiver)'")
    }
    let next = JournalContents.Receiver(receiver, redirectedAfter: sent?.acknowledged ?? 0)
    let sent = sent
    try journal.record {
      try journal.pipeConnected(name, to: next)
      guard let sent else { return }
      try journal.sent(name, queued: sent.queued, acknowledged: sent.acknowledged, trims: true)
    }
    self.receiver = next
  }

  /// Returns the last event that the receiver's journal records as taken; 0 without a journal,
  /// since the receiver's state is lost then.
  static func taken(
    of pipe: String, stream: UInt64, by receiver: String, beside journal: Journal
  ) throws -> UInt64 {
    do {
      return try JournalReader(journal.path(ofNode: receiver), node: receiver).taken(
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
