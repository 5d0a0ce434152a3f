import PipeClient
import PipeTransport
import PipeWire

/// Follows the nodes whose states other nodes wait for.
final class StateWatcher {
  /// The feed of one process.
  private struct Watch {
    let incarnation: UInt64
    /// The feed; `nil` if the process could not be followed.
    let feed: FeedWatch?
  }

  private let context: Context
  private let loop: PollLoop
  private var watches: [String: Watch] = [:]

  init(in context: Context, loop: PollLoop) {
    self.context = context
    self.loop = loop
  }

  /// Stops following all nodes that are not in `nodes`.
  func keepOnly(_ nodes: Set<String>) {
    for (node, watch) in watches where !nodes.contains(node) {
      watch.feed?.close()
      watches.removeValue(forKey: node)
    }
  }

  /// Follows a process, unless the process is already followed.
  /// - Throws: The error, if the process cannot be followed. The error is thrown only once for each
  ///   process.
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
    // The watch may be removed while its states are handled, so the feed is retained here.
    let feed = watches[node]?.feed
    feed?.drain()
  }
}

/// The states that other nodes wait for before they run.
extension Supervisor {
  /// Follows the processes whose states other nodes wait for. Each process is followed as soon as
  /// it has said hello. At that time, the feed of the process is bound, and the process has not
  /// entered a state yet.
  func followAwaitedStates() {
    let awaited = lifecycle.awaitedNodes
    stateWatcher.keepOnly(awaited)
    for name in awaited where lifecycle[name]?.state.hasFeed == true {
      guard let incarnation = processes[name]?.incarnation, let feed = feed(of: name) else {
        continue
      }
      do {
        try stateWatcher.follow(name, feed: feed, incarnation: incarnation) { [weak self] change in
          guard let self, change.node == name, lifecycle.isAwaited(change.state, of: name) else {
            return
          }
          handle(.stateObserved(node: name, state: change.state))
        }
      } catch {
        reporter.warning(
          "cannot follow the states of node '\(name)', for which other nodes wait: \(error); run "
            + "'orchestrator restart \(name)' to try again")
      }
    }
  }

  /// Returns the endpoint of a node's feed; `nil` if the node has not reported its endpoints yet.
  private func feed(of name: String) -> PeerEndpoint? {
    if let deployedNodes { return deployedNodes.feed(of: name) }
    return plan[name].map { PeerEndpoint($0.information.feed) }
  }
}
