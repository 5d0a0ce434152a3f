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
  private let outPipes: OutPipes
  private let loop: PollLoop
  private var isWriteScheduled = false
  /// A histogram of the time that it takes to record a turn.
  private(set) var recordingDurations = DurationCounts()
  /// Called when pending records cannot be written into the database.
  var onFailure: ((JournalError) -> Void)?

  /// The time after which records are written from the log into the database, where other programs
  /// can read them.
  private static let writeDelay: Duration = .milliseconds(250)

  init(
    _ journal: Journal?, content: HostedContent, inbox: NodeInbox, outs: OutPipes, loop: PollLoop
  ) {
    self.journal = journal
    self.content = content
    self.inbox = inbox
    self.outPipes = outs
    self.loop = loop
  }

  private var hasUnrecordedChanges: Bool {
    content.hasUnrecordedChanges || inbox.hasUnrecordedChanges || outPipes.hasUnrecordedChanges
  }

  /// Records the changes that the journal has not recorded yet.
  func record() throws(JournalError) {
    guard let journal, hasUnrecordedChanges else { return }
    Failpoint.hit(.stepAfter)
    content.participant?.markPrepared(in: journal)
    if hasUnrecordedChanges { try write(to: journal) }
    Failpoint.hit(.recordAfter)
  }

  /// Deletes acknowledged records, which are no longer required, and writes all other records into
  /// the database.
  func finish() {
    guard let journal else { return }
    if content.hasObsoleteRecords || outPipes.hasAcknowledgedRecords { try? write(to: journal) }
    try? journal.finish()
  }

  private func write(to journal: Journal) throws(JournalError) {
    let start = BootClock.nanoseconds
    try journal.record {
      try content.stepCallbacks.record(journal)
      try inbox.record(into: journal)
      try outPipes.record(into: journal)
    }
    recordingDurations.add(nanoseconds: BootClock.nanoseconds - start)
    scheduleWrite(journal)
  }

  private func scheduleWrite(_ journal: Journal) {
    guard !isWriteScheduled, journal.hasUnwrittenRecords else { return }
    isWriteScheduled = true
    loop.schedule(after: Self.writeDelay, for: self) { recorder in
      recorder.isWriteScheduled = false
      do throws(JournalError) { try journal.writePendingRecords() } catch {
        recorder.onFailure?(error)
      }
    }
  }

  /// Checks that the journal's files still exist at their paths. If they were removed, writes new
  /// files, because the next process would otherwise not find the records. The node must then end,
  /// so that the next process continues with the new files.
  /// - Returns: The reason why the node must end; `nil` if the files exist.
  func recoverRemovedJournal() -> String? {
    guard let journal, !journal.isLinked else { return nil }
    do {
      try journal.recreate()
      return
        "the journal '\(journal.path)' was removed while the node was running; the node has "
        + "written the journal again from memory, and nothing is lost"
    } catch {
      return "the journal '\(journal.path)' was removed while the node was running, and its "
        + "records are lost: the journal cannot be written again: \(error)"
    }
  }
}
