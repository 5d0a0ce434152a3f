import PipeSupport
import PipeWire

/// Tells what follows one another, a node's steps or a pipe's events, to who asks for it: within a budget, and
/// with the exact number of those that are left out.
final class ToldSequence {
  private let feed: Feed
  private let kind: FrameKind
  private let topic: UInt32
  private var budget = FeedBudget()
  private var ending: UInt64 = 0
  /// Makes what tells that so many were left out up to now, with its sequence number.
  private let gap: (_ skipped: UInt64) -> (sequence: UInt64, body: FeedBody)

  /// - Parameter name: What it is about: the node, or the pipe.
  init(
    _ kind: FrameKind, about name: String, to feed: Feed,
    gap: @escaping (_ skipped: UInt64) -> (sequence: UInt64, body: FeedBody)
  ) {
    self.feed = feed
    self.kind = kind
    topic = FeedTopic.number(of: name)
    self.gap = gap
    ending = feed.atEnd { [weak self] in self?.reopen() }
  }

  deinit { feed.forget(ending) }

  /// Something has happened; returns whether to ``tell(_:_:)`` of it.
  func begin() -> Bool {
    switch budget.take(at: { BootClock.nanoseconds }) {
    case .tell: return true
    case .tellAndClose(let time):
      feed.loop.schedule(after: time, for: self) { $0.reopen() }
      return true
    case .skip: return false
    }
  }

  /// Tells it with the record of what has led to it.
  func tell(_ sequence: UInt64, _ body: FeedBody) {
    feed.keep(kind, about: topic, sequence, body)
  }

  private func reopen() {
    let skipped = budget.reopen()
    guard skipped > 0 else { return }
    let (sequence, body) = gap(skipped)
    tell(sequence, body)
  }
}
