import PipeClient
import PipeSupport
import PipeSystem
import PipeWire

/// The queue of starts on other hosts. A start waits in the queue until its host has capacity.
extension Supervisor {
  /// Starts the nodes that have reached the front of the queue.
  func launchQueuedNodes() {
    guard engines.slurm != nil || plan.keys != nil else { return }
    launchQueue.freeCapacity { !isStarting($0) }
    launchQueue.move { plan.isLost($0.host) ? engines.slurm?.relocate($0.node) : nil }
    while let next = launchQueue.next(
      isLost: { plan.isLost($0) || engines.agents.isAgentUnavailable($0) },
      where: { !isStarting($0.node, $0.incarnation) })
    {
      if isStarting(next.node, next.incarnation) {
        let input = spawn(next.node, incarnation: UInt64(next.incarnation))
        loop.schedule(after: .zero, for: self) { $0.handle(.node(next.node, input)) }
      } else if isEndingUnstarted(next.node, next.incarnation) {
        loop.schedule(after: .zero, for: self) {
          $0.handle(
            .node(next.node, .spawnFailed(reason: "stopped before the process was started")))
        }
      }
    }
  }

  /// Postpones the deadlines of nodes by the time that they wait in the queue.
  func creditLaunchQueueTime() {
    for (node, time) in launchQueue.takeWaitTimes(at: .now) where time > .zero {
      handle(.node(node, .waitedForProcessor(time)))
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

  /// Gives up a process that does not answer while the topology is stopping. Afterwards, the
  /// process has no valid keys and no peers.
  func abandonAtEnd(_ name: String) {
    // A process with a lease is not given up, since it certainly ends when the lease expires.
    guard isStopping, !leases.hasLease(plan.host(of: name) ?? name) else { return }
    loop.schedule(after: .zero, for: self) { $0.processes.abandon(name) }
  }
}

/// The states of nodes, as queried by the engines.
extension Supervisor {
  func isReachable(_ name: String) -> Bool {
    lifecycle[name].map {
      $0.state.canCarryEmbeddedNodes && !isLost(name) && !$0.isAwaited(at: .now)
    }
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
