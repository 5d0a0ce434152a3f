import PipeClient
import PipeTransport
import PipeWire

/// The states that nodes wait for before they start.
extension Supervisor {
  /// A process is followed from its hello on, when its feed is bound, and so before it enters a state.
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
          "the states of node '\(name)', for one of which others wait, cannot be followed: "
            + "\(error). 'orchestrator restart \(name)' tries it again")
      }
    }
  }

  /// Where a node's feed is read; `nil` while it has told nobody.
  private func feed(of name: String) -> PeerPlace? {
    if let deployed { return deployed.feed(of: name) }
    return plan[name].map { PeerPlace($0.information.feed) }
  }
}
