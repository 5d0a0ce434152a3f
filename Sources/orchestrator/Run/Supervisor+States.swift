import PipeRuntime

/// The states of one process of a node, as its feed tells them.
struct StateWatch {
  let incarnation: UInt64
  /// `nil` where it could not be followed.
  let feed: FeedWatch?
}

extension Supervisor {
  /// Follows the states of those nodes of which somebody waits for one, and of no others.
  ///
  /// A process is followed from its hello on, when its feed is bound, and so before it enters a state.
  func followAwaitedStates() {
    let awaited = lifecycle.awaitedNodes
    for (name, watch) in stateWatches where !awaited.contains(name) {
      watch.feed?.close()
      stateWatches.removeValue(forKey: name)
    }
    for name in awaited where hasFeed(name) { follow(name) }
  }

  /// Takes the last states of a process that has ended.
  func takeLastStates(of name: String) {
    // One of them may end the watch.
    let feed = stateWatches[name]?.feed
    feed?.drain()
  }

  private func hasFeed(_ name: String) -> Bool {
    switch lifecycle[name]?.state {
    case .configuring, .ready, .running: true
    case .idle, .adopting, .starting, .stopping, .backingOff, .stopped, .failed, nil: false
    }
  }

  private func follow(_ name: String) {
    guard let node = plan[name], let incarnation = processes[name]?.incarnation,
      stateWatches[name]?.incarnation != incarnation
    else { return }
    stateWatches[name]?.feed?.close()
    var feed: FeedWatch?
    do {
      feed = try FeedWatch(feeds: [node.information.feed], in: context, loop: loop) {
        [weak self] change in self?.saw(change, of: name)
      }
    } catch {
      reporter.warning(
        "the states of node '\(name)', for one of which others wait, cannot be followed: \(error). "
          + "'orchestrator restart \(name)' tries it again")
    }
    stateWatches[name] = StateWatch(incarnation: incarnation, feed: feed)
  }

  private func saw(_ change: StateChange, of name: String) {
    guard change.node == name, lifecycle.isAwaited(change.state, of: name) else { return }
    handle(.seen(name, in: change.state))
  }
}
