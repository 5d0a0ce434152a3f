import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// Publishes a node's summary to subscribers when it has changed.
final class NodeSummaries {
  /// The content of the last published summary.
  private struct PublishedSummary: Equatable {
    struct Entry: Equatable {
      var version: UInt64
      var doubt: InDoubtTransaction?
      var isIntermediate: Bool
    }

    var status: NodeStatus
    /// The entries, by the names of the nodes and composites.
    var entries: [String: Entry]
  }

  private let feed: Feed
  private let content: HostedContent
  private let status: () -> NodeStatus
  private var pace = SummaryPace()
  private var published: PublishedSummary?

  init(of content: HostedContent, to feed: Feed, status: @escaping () -> NodeStatus) {
    self.content = content
    self.feed = feed
    self.status = status
  }

  /// Notes a new subscriber: the next summary is published even if nothing has changed.
  func requestSummary() { published = nil }

  /// Publishes a changed summary: a turn has ended and is recorded.
  func turnEnded() {
    guard feed.hasSummarySubscriber, !pace.isWaiting else { return }
    let entries = content.lastSteps
    let current = current(entries)
    guard current != published, !entries.isEmpty else { return }
    switch pace.noteChange(at: BootClock.nanoseconds) {
    case .wait(let time): feed.loop.schedule(after: time, for: self) { $0.pace.endWait() }
    case .report: report(entries, current)
    }
  }

  /// Publishes a changed summary without delay: the node ends, and everything is recorded.
  func end() {
    guard feed.hasSummarySubscriber else { return }
    let entries = content.lastSteps
    let current = current(entries)
    if current != published { report(entries, current) }
  }

  private func report(_ entries: [FeedEntry], _ current: PublishedSummary) {
    guard let first = entries.first else { return }
    var status = current.status
    status.time = WallClock.nanoseconds
    report(first, NodeSummary(status: status, transitions: content.transitions), current)
    // If composites share a process, the first one reports the counters of the process.
    for entry in entries.dropFirst() { report(entry, NodeSummary(), current) }
    published = current
  }

  private func current(_ entries: [FeedEntry]) -> PublishedSummary {
    var status = status()
    // The time differs in each status, and is not a change.
    status.time = nil
    // The entries contain the state and the doubt. The other values are not counters, and are sent
    // on request.
    status.state = nil
    status.doubt = nil
    status.composites = []
    status.recentDeadLetters = []
    status.steps = nil
    status.recording = nil
    return PublishedSummary(
      status: status,
      entries: Dictionary(
        entries.map {
          (
            $0.node ?? feed.node,
            PublishedSummary.Entry(
              version: $0.version, doubt: $0.doubt, isIntermediate: $0.isIntermediate)
          )
        }, uniquingKeysWith: { first, _ in first }))
  }

  private func report(_ entry: FeedEntry, _ summary: NodeSummary, _ current: PublishedSummary) {
    let name = entry.node ?? feed.node
    let isNew = published.map { published in
      published.entries[name] != current.entries[name]
        || summary.status != nil && published.status != current.status
    }
    if isNew ?? true { feed.publish(summary, with: entry) }
  }
}
