import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// Publishes a node's summary to subscribers when the summary has changed.
final class NodeSummaries {
  /// The values of the last published summary, without values that clients request separately.
  private struct PublishedSummary: Equatable {
    struct Entry: Equatable {
      var version: UInt64
      var inDoubtTransaction: InDoubtTransaction?
      var isIntermediate: Bool
    }

    var status: NodeStatus
    /// The entries, by the names of the nodes and composites.
    var entriesByName: [String: Entry]
  }

  private let feed: Feed
  private let content: HostedContent
  private let readStatus: () -> NodeStatus
  private var pace = SummaryPace()
  private var lastPublishedSummary: PublishedSummary?

  init(of content: HostedContent, to feed: Feed, status: @escaping () -> NodeStatus) {
    self.content = content
    self.feed = feed
    self.readStatus = status
  }

  /// Ensures that the next summary is published even if nothing has changed. Called for a new
  /// subscriber.
  func requestSummary() { lastPublishedSummary = nil }

  /// Publishes the summary if it has changed. Called after each turn, once the turn is recorded.
  func turnEnded() {
    guard feed.hasSummarySubscriber, !pace.isWaiting else { return }
    let entries = content.lastSteps
    let current = currentSummary(entries)
    guard current != lastPublishedSummary, !entries.isEmpty else { return }
    switch pace.noteChange(at: BootClock.nanoseconds) {
    case .wait(let time): feed.loop.schedule(after: time, for: self) { $0.pace.endWait() }
    case .report: report(entries, current)
    }
  }

  /// Publishes the summary without delay if it has changed. Called when the node ends, once
  /// everything is recorded.
  func publishFinalSummary() {
    guard feed.hasSummarySubscriber else { return }
    let entries = content.lastSteps
    let current = currentSummary(entries)
    if current != lastPublishedSummary { report(entries, current) }
  }

  private func report(_ entries: [PublishedState], _ current: PublishedSummary) {
    guard let first = entries.first else { return }
    var status = current.status
    status.time = WallClock.nanoseconds
    report(first, NodeSummary(status: status, transitions: content.transitions), current)
    // If several composites share this process, the first composite reports the counters of the
    // process.
    for entry in entries.dropFirst() { report(entry, NodeSummary(), current) }
    lastPublishedSummary = current
  }

  private func currentSummary(_ entries: [PublishedState]) -> PublishedSummary {
    var status = readStatus()
    // The time always differs, so it is not compared.
    status.time = nil
    // The state and the transaction in doubt are in `entries`. The other values that are removed
    // here are not counters; clients request them separately.
    status.state = nil
    status.since = nil
    status.doubt = nil
    status.composites = []
    status.recentDeadLetters = []
    status.steps = nil
    status.recording = nil
    return PublishedSummary(
      status: status,
      entriesByName: Dictionary(
        entries.map {
          (
            $0.node ?? feed.node,
            PublishedSummary.Entry(
              version: $0.version, inDoubtTransaction: $0.inDoubtTransaction,
              isIntermediate: $0.isIntermediate)
          )
        }, uniquingKeysWith: { first, _ in first }))
  }

  private func report(_ entry: PublishedState, _ summary: NodeSummary, _ current: PublishedSummary)
  {
    let name = entry.node ?? feed.node
    let isNew = lastPublishedSummary.map { published in
      published.entriesByName[name] != current.entriesByName[name]
        || summary.status != nil && published.status != current.status
    }
    if isNew ?? true { feed.publish(summary, with: entry) }
  }
}
