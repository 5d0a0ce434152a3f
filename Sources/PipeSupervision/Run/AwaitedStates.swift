import PipeTransport
import PipeWire

/// Follows the states of those nodes of which others wait for one, and of no more.
final class AwaitedStates {
  /// The states of one process.
  private struct Watch {
    let incarnation: UInt64
    /// `nil` where it could not be followed.
    let feed: FeedWatch?
  }

  private let context: Context
  private let loop: PollLoop
  private var watches: [String: Watch] = [:]

  init(in context: Context, loop: PollLoop) {
    self.context = context
    self.loop = loop
  }

  /// Ends the watch of all but these.
  func keep(_ nodes: Set<String>) {
    for (node, watch) in watches where !nodes.contains(node) {
      watch.feed?.close()
      watches.removeValue(forKey: node)
    }
  }

  /// Follows a process, where it is not followed yet.
  /// - Throws: The first time that it cannot be followed.
  func follow(
    _ node: String, feed place: PeerPlace, incarnation: UInt64,
    _ receive: @escaping (StateChange) -> Void
  ) throws(TransportError) {
    guard watches[node]?.incarnation != incarnation else { return }
    watches[node]?.feed?.close()
    watches[node] = Watch(incarnation: incarnation, feed: nil)
    let feed = try FeedWatch(feeds: [], in: context, loop: loop, receive)
    do {
      try feed.connect(to: place)
    } catch {
      feed.close()
      throw error
    }
    watches[node] = Watch(incarnation: incarnation, feed: feed)
  }

  /// Takes the last states of a process that has ended.
  func drain(_ node: String) {
    // One of them may end the watch.
    let feed = watches[node]?.feed
    feed?.drain()
  }
}
