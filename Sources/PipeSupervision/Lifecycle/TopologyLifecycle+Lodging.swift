/// Nodes that live in the processes of others, their hosts: a host's process ends in order only when its
/// lodgers have left it, and they come back with the next one.
extension TopologyLifecycle {
  func host(of name: String) -> String? { members.first { $0.name == name }?.host }

  private func lodgers(of name: String) -> [String] {
    members.filter { $0.host == name }.map(\.name)
  }

  private func isLivedIn(_ name: String) -> Bool {
    lodgers(of: name).contains { nodes[$0]?.state.hasProcess == true }
  }

  /// Keeps an order to end from a host until its lodgers have left.
  /// - Returns: Whether it was kept, or has changed what is kept.
  mutating func holdsBack(
    _ input: NodeLifecycle.Input, from name: String, at now: Instant,
    into actions: inout [Action]
  ) -> Bool {
    switch input {
    case .start where departures[name] == .stopRequested:
      departures[name] = .restartRequested
      return true
    case .stopRequested, .restartRequested:
      guard nodes[name]?.state.isOpenToLodgers == true, isLivedIn(name) else { return false }
      departures[name] = input
      for lodger in lodgers(of: name) {
        pass(.hostLeaves, to: lodger, at: now, into: &actions)
      }
      return true
    case .start, .adopt, .answered, .spawned, .spawnFailed, .hello, .ready, .complained, .go,
      .heartbeat, .queued, .exited, .unattached, .present, .outnumbered, .killRequested, .hostCame,
      .hostLeaves,
      .hostWent, .tick:
      return false
    }
  }

  /// Tells a host's lodgers that it has come, or gone.
  mutating func tellLodgers(of name: String, at now: Instant, into actions: inout [Action]) {
    let isOpen = nodes[name]?.state.isOpenToLodgers == true
    for lodger in lodgers(of: name) {
      pass(isOpen ? .hostCame : .hostWent, to: lodger, at: now, into: &actions)
    }
  }

  /// Hands hosts what was kept from them, where nobody is left whom it waits for.
  mutating func letDepart(at now: Instant, into actions: inout [Action]) {
    for (name, input) in departures {
      let isOpen = nodes[name]?.state.isOpenToLodgers == true
      if isOpen, isLivedIn(name) { continue }
      // Handed on by one who was told meanwhile.
      guard departures.removeValue(forKey: name) != nil else { continue }
      pass(input, to: name, at: now, into: &actions)
    }
  }

  /// What becomes of a node that waits for its host, where nobody is about to start that.
  func hostObstacle(of name: String) -> NodeReport.Obstacle? {
    guard let host = host(of: name) else { return nil }
    return switch nodes[host]?.state {
    case .failed: .init(host, .failed, isHost: true)
    case .idle, .stopped(.requested): .init(host, .stopped, isHost: true)
    case .stopped(.completed): .init(host, .completed, isHost: true)
    case .awaitingHost, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping,
      .backingOff, nil:
      nil
    }
  }
}
