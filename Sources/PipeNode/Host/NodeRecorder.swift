import PipeJournal
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// Writes what a node has taken and sent into its journal: what one turn has changed is one transaction.
final class NodeRecorder {
  private let journal: Journal?
  private let content: HostedContent
  private let inbox: NodeInbox
  private let outs: OutPipes
  private let loop: PollLoop
  private var isWriteDue = false
  /// How long records took.
  private(set) var durations = DurationCounts()
  /// Called where records cannot be written into the database.
  var onFailure: ((JournalError) -> Void)?

  /// How long records wait before they are written into the database, for those who look there.
  private static let writeDelay: Duration = .milliseconds(250)

  init(
    _ journal: Journal?, content: HostedContent, inbox: NodeInbox, outs: OutPipes, loop: PollLoop
  ) {
    self.journal = journal
    self.content = content
    self.inbox = inbox
    self.outs = outs
    self.loop = loop
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

  /// Writes what was acknowledged since the last record, and so need not be kept, and all into the database.
  func finish() {
    guard let journal else { return }
    if content.hasLeftover || outs.hasAcknowledged { try? write(to: journal) }
    try? journal.finish()
  }

  private func write(to journal: Journal) throws(JournalError) {
    let start = BootClock.nanoseconds
    try journal.record {
      try content.calls.record(journal)
      try inbox.record(into: journal)
      try outs.record(into: journal)
    }
    durations.add(nanoseconds: BootClock.nanoseconds - start)
    writeOutLater(journal)
  }

  private func writeOutLater(_ journal: Journal) {
    guard !isWriteDue, journal.hasUnwritten else { return }
    isWriteDue = true
    loop.schedule(after: Self.writeDelay, for: self) { recorder in
      recorder.isWriteDue = false
      do throws(JournalError) { try journal.writeOut() } catch {
        recorder.onFailure?(error)
      }
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
