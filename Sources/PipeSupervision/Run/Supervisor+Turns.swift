import PipeClient
import PipeSupport
import PipeSystem
import PipeWire

/// Starts on other hosts, each when its host has capacity.
extension Supervisor {
  /// Starts the nodes whose turn it is.
  func goOnLaunching() {
    guard engines.slurm != nil || plan.keys != nil else { return }
    turns.end { !isStarting($0) }
    turns.move { plan.isLost($0.host) ? engines.slurm?.relocate($0.node) : nil }
    while let next = turns.next(
      isLost: { plan.isLost($0) || engines.agents.isAgentAway($0) },
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

  /// Takes the time that nodes wait for their turn from the time that counts against them.
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

  /// On the way down a process that does not answer is left where it runs: it has no keys any more, and no peers.
  func abandonAtEnd(_ name: String) {
    // The end of a lease is waited for, and is certain.
    guard isStopping, !leases.has(plan.host(of: name) ?? name) else { return }
    loop.schedule(after: .zero, for: self) { $0.processes.abandon(name) }
  }
}

/// What engines ask of the states of nodes.
extension Supervisor {
  func isHeard(_ name: String) -> Bool {
    lifecycle[name].map { $0.state.isOpenToLodgers && !isLost(name) && !$0.isAwaited(at: .now) }
      == true
  }

  func isLost(_ name: String) -> Bool {
    if case .lost? = lifecycle[name]?.state { true } else { false }
  }

  func isEnding(_ name: String) -> Bool {
    if case .stopping? = lifecycle[name]?.state { true } else { false }
  }

  func isKilled(_ name: String) -> Bool {
    if case .stopping(let stopping)? = lifecycle[name]?.state {
      stopping.stage == .killed
    } else {
      false
    }
  }
}
