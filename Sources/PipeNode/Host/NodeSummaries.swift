import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// Tells a node's summary to who asks for it, when something in it has changed.
final class NodeSummaries {
  /// What was told last.
  private struct Told: Equatable {
    struct Entry: Equatable {
      var version: UInt64
      var doubt: InDoubtTransaction?
      var isPassing: Bool
    }

    var status: NodeStatus
    /// By the names of those whose states they are.
    var entries: [String: Entry]
  }

  private let feed: Feed
  private let content: HostedContent
  private let status: () -> NodeStatus
  private var pace = SummaryPace()
  private var told: Told?

  init(of content: HostedContent, to feed: Feed, status: @escaping () -> NodeStatus) {
    self.content = content
    self.feed = feed
    self.status = status
  }

  /// Somebody has come, and is to be told whatever was told before.
  func ask() { told = nil }

  /// A turn has ended, and is recorded.
  func turnEnded() {
    guard feed.areSummariesWanted, !pace.isWaiting else { return }
    let entries = content.lastSteps
    let current = current(entries)
    guard current != told, !entries.isEmpty else { return }
    switch pace.changed(at: BootClock.nanoseconds) {
    case .wait(let time): feed.loop.schedule(after: time, for: self) { $0.pace.waited() }
    case .tell: tell(entries, current)
    }
  }

  /// The node ends, and all is recorded: the last summary does not wait.
  func end() {
    guard feed.areSummariesWanted else { return }
    let entries = content.lastSteps
    let current = current(entries)
    if current != told { tell(entries, current) }
  }

  private func tell(_ entries: [FeedEntry], _ current: Told) {
    guard let first = entries.first else { return }
    var status = current.status
    status.time = WallClock.nanoseconds
    tell(first, NodeSummary(status: status, transitions: content.transitions), current)
    // Where composites share a process, the first one tells its counters.
    for entry in entries.dropFirst() { tell(entry, NodeSummary(), current) }
    told = current
  }

  private func current(_ entries: [FeedEntry]) -> Told {
    var status = status()
    // It is another one each time, and says nothing new.
    status.time = nil
    // The entries have these; and what is no count is asked for.
    status.state = nil
    status.doubt = nil
    status.composites = []
    status.recentLetters = []
    status.steps = nil
    status.recording = nil
    return Told(
      status: status,
      entries: Dictionary(
        entries.map {
          (
            $0.node ?? feed.node,
            Told.Entry(version: $0.version, doubt: $0.doubt, isPassing: $0.isPassing)
          )
        }, uniquingKeysWith: { first, _ in first }))
  }

  private func tell(_ entry: FeedEntry, _ summary: NodeSummary, _ current: Told) {
    let name = entry.node ?? feed.node
    let isNew = told.map { told in
      told.entries[name] != current.entries[name]
        || summary.status != nil && told.status != current.status
    }
    if isNew ?? true { feed.publish(summary, with: entry) }
  }
}
