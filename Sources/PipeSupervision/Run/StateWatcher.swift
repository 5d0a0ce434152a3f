import PipeClient
import PipeTransport
import PipeWire

/// Follows the states of nodes that other nodes wait for, and of no other nodes.
final class StateWatcher {
  /// The feed of one process.
  private struct Watch {
    let incarnation: UInt64
    /// `nil` if the feed could not be followed.
    let feed: FeedWatch?
  }

  private let context: Context
  private let loop: PollLoop
  private var watches: [String: Watch] = [:]

  init(in context: Context, loop: PollLoop) {
    self.context = context
    self.loop = loop
  }

  /// Stops following all nodes except these.
  func keep(_ nodes: Set<String>) {
    for (node, watch) in watches where !nodes.contains(node) {
      watch.feed?.close()
      watches.removeValue(forKey: node)
    }
  }

  /// Follows a process, unless it is followed already.
  /// - Throws: An error the first time that a process cannot be followed.
  func follow(
    _ node: String, feed feedEndpoint: PeerEndpoint, incarnation: UInt64,
    _ receive: @escaping (StateChange) -> Void
  ) throws(TransportError) {
    guard watches[node]?.incarnation != incarnation else { return }
    watches[node]?.feed?.close()
    watches[node] = Watch(incarnation: incarnation, feed: nil)
    let feed = try FeedWatch(feeds: [], in: context, loop: loop, receive)
    do {
      try feed.connect(to: feedEndpoint)
    } catch {
      feed.close()
      throw error
    }
    watches[node] = Watch(incarnation: incarnation, feed: feed)
  }

  /// Reads the last states of a process that has ended.
  func drain(_ node: String) {
    // One of the states may end the watch.
    let feed = watches[node]?.feed
    feed?.drain()
  }
}

/// The states that nodes wait for before they start.
extension Supervisor {
  /// Follows the processes that other nodes wait for. A process is followed from its hello on, when its
  /// feed is bound, and so before it enters a state.
  func followAwaitedStates() {
    let awaited = lifecycle.awaitedNodes
    states.keep(awaited)
    for name in awaited where lifecycle[name]?.state.hasFeed == true {
      guard let incarnation = processes[name]?.incarnation, let feed = feed(of: name) else {
        continue
      }
      do {
        try states.follow(name, feed: feed, incarnation: incarnation) { [weak self] change in
          guard let self, change.node == name, lifecycle.isAwaited(change.state, of: name) else {
            return
          }
          handle(.seen(name, in: change.state))
        }
      } catch {
        reporter.warning(
          "cannot follow the states of node '\(name)', for which other nodes wait: \(error); run "
            + "'orchestrator restart \(name)' to try again")
      }
    }
  }

  /// Returns the endpoint of a node's feed; `nil` if the node has not reported it yet.
  private func feed(of name: String) -> PeerEndpoint? {
    if let deployed { return deployed.feed(of: name) }
    return plan[name].map { PeerEndpoint($0.information.feed) }
  }
}
