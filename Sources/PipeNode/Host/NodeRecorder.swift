import PipeJournal
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// Records the inputs and outputs of a node in its journal. The changes of one turn are one
/// transaction.
final class NodeRecorder {
  private let journal: Journal?
  private let content: HostedContent
  private let inbox: NodeInbox
  private let outs: OutPipes
  private let loop: PollLoop
  private var isWriteDue = false
  /// The durations of the records.
  private(set) var durations = DurationCounts()
  /// Called when records cannot be written into the database.
  var onFailure: ((JournalError) -> Void)?

  /// How long records wait before they are written into the database, where other programs can read
  /// them.
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

  /// Records the changes that the journal lacks.
  func record() throws(JournalError) {
    guard let journal, hasUnrecorded else { return }
    Failpoint.hit(.stepAfter)
    content.participant?.markPrepared(in: journal)
    if hasUnrecorded { try write(to: journal) }
    Failpoint.hit(.recordAfter)
  }

  /// Removes acknowledged records, which need not be kept, and writes everything into the database.
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

  /// Checks that the journal file is in place. If it was removed, later records would be lost
  /// with this process: the journal is written again, and the next process continues from it.
  /// - Returns: The reason why the node must end; `nil` if the journal is in place.
  func keepInPlace() -> String? {
    guard let journal, !journal.isInPlace else { return nil }
    do {
      try journal.writeAnew()
      return
        "the journal '\(journal.path)' was removed while the node was running; the node has "
        + "written the journal again from memory, and nothing is lost"
    } catch {
      return "the journal '\(journal.path)' was removed while the node was running, and its "
        + "records are lost: the journal cannot be written again: \(error)"
    }
  }
}
