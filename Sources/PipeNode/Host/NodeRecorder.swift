import PipeJournal
import PipeSystem

/// Writes what a node has taken and sent into its journal: what one turn has changed is one transaction.
final class NodeRecorder {
  private let journal: Journal?
  private let content: HostedContent
  private let inbox: NodeInbox
  private let outs: OutPipes

  init(_ journal: Journal?, content: HostedContent, inbox: NodeInbox, outs: OutPipes) {
    self.journal = journal
    self.content = content
    self.inbox = inbox
    self.outs = outs
  }

  private var hasUnrecorded: Bool {
    content.hasUnrecorded || inbox.hasUnrecorded || outs.hasUnrecorded
  }

  /// Writes what the journal lacks.
  func record() throws(JournalError) {
    guard let journal, hasUnrecorded else { return }
    Failpoint.hit(.stepAfter)
    content.participant?.markPrepared(in: journal)
    if hasUnrecorded { try write(to: journal) }
    Failpoint.hit(.recordAfter)
  }

  /// Writes what was acknowledged since the last record, and so need not be kept.
  func recordLeftover() {
    guard let journal, content.hasLeftover || outs.hasAcknowledged else { return }
    try? write(to: journal)
  }

  private func write(to journal: Journal) throws(JournalError) {
    try journal.record {
      try content.calls.record(journal)
      try inbox.record(into: journal)
      try outs.record(into: journal)
    }
  }

  /// Where somebody has removed the journal, what is accepted from now on would be lost with this
  /// process: saves it, and leaves the rest to the next process.
  /// - Returns: Why the node has to end; `nil` where the journal is in place.
  func keepInPlace() -> String? {
    guard let journal, !journal.isInPlace else { return nil }
    do {
      try journal.writeAnew()
      return
        "its journal '\(journal.path)' was removed while it ran; it has been written anew from "
        + "what the node held, and nothing is lost"
    } catch {
      return "its journal '\(journal.path)' was removed while it ran, and what it had recorded is "
        + "lost: it cannot be written anew, \(error)"
    }
  }
}
