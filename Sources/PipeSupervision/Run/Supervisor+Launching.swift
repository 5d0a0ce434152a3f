import PipeClient

/// Starts on other hosts, of which each has its turn.
extension Supervisor {
  /// Whether a node can be started at once; else that is done when it has its turn.
  func hasTurn(_ name: String, incarnation: Int) -> Bool {
    if plan.host(of: name) == nil { _ = relocate(name) }
    guard let node = plan[name], node.host == nil else { return true }
    if node.hasAgent { return hasAgent(name, incarnation: incarnation) }
    guard let host = node.hostName else { return true }
    let isLost = plan.isLost(host)
    if isLost { tell(.awaitingHost(host), of: name) }
    return turns.begin(name, incarnation: incarnation, on: host, isLost: isLost, at: .now)
  }

  /// Has a node start elsewhere where its host is lost and there is another one.
  /// - Returns: Where; `nil` where it stays.
  private func relocate(_ name: String) -> String? {
    guard let (former, next) = plan.move(name) else { return nil }
    tell(.moving(from: former, to: next), of: name)
    return next
  }

  /// Starts those that have their turn now.
  func goOnLaunching() {
    guard engine != nil || plan.keys != nil else { return }
    turns.end { !isStarting($0) }
    turns.move { plan.isLost($0.host) ? relocate($0.node) : nil }
    while let next = turns.next(
      isLost: { plan.isLost($0) || isAgentAway($0) },
      where: { !isStarting($0.node, $0.incarnation) })
    {
      if isStarting(next.node, next.incarnation) {
        let input = spawn(next.node, incarnation: UInt64(next.incarnation))
        loop.schedule(after: .zero, for: self) { $0.handle(.node(next.node, input)) }
      } else if isEndingUnstarted(next.node, next.incarnation) {
        loop.schedule(after: .zero, for: self) {
          $0.handle(.node(next.node, .spawnFailed(reason: "it was to end before it was started")))
        }
      }
    }
  }

  /// Tells those that wait for their turn that this time does not count.
  func creditLaunchTurns() {
    for (node, time) in turns.takeTimes(at: .now) where time > .zero {
      handle(.node(node, .queued(time)))
    }
  }

  private func isStarting(_ name: String, _ incarnation: Int? = nil) -> Bool {
    guard let node = lifecycle[name], case .starting = node.state else { return false }
    return incarnation.map { node.incarnation == $0 && node.pid == nil } ?? true
  }

  private func isEndingUnstarted(_ name: String, _ incarnation: Int) -> Bool {
    guard let node = lifecycle[name], case .stopping = node.state else { return false }
    return node.incarnation == incarnation && node.pid == nil
  }
}
