import PipeClient
import PipeSupport
import PipeSystem
import PipeWire

/// Leases of processes on other hosts. A process with a lease must not continue without this
/// orchestrator, so that another process can replace it.
extension Supervisor {
  /// Starts the nodes as soon as all processes with a lease from a former orchestrator have
  /// certainly ended.
  func startAfterFormerLeases() {
    // Waits even if the topology no longer lets any node move: a process with a lease may still be
    // running where another process must start.
    guard let left = LeaseRecord.remainingTime(in: directories) else { return startNodes() }
    // Adopted processes get new leases from this orchestrator.
    let leased =
      plan.nodes.filter { $0.lease != nil && $0.host == nil }.map(\.name)
      + lock.formerProcesses.filter(\.launch.hasLease).map(\.node)
    if !leased.isEmpty, leased.allSatisfy({ options.adoptedProcesses[$0] != nil }) {
      return startNodes()
    }
    reporter.warning(
      "a former orchestrator of this topology was killed, and its nodes with 'on_host_loss: move' "
        + "may keep running for \(left.shortText); no node is started before that time has passed")
    loop.schedule(after: left, for: self) { $0.startNodes() }
  }

  private func startNodes() {
    guard !isStopping else { return }
    hasBegun = true
    if let term = plan.leaseTerm {
      do {
        try LeaseRecord.write(term, in: directories)
      } catch {
        reporter.warning("\(error)")
        return requestStop(.init(exitCode: 1, reason: "\(error)"))
      }
    }
    handle(.start)
  }

  /// Removes the lease file after the run. The file stays if a process may still have a lease. It
  /// also stays if the leases of a former orchestrator have kept this orchestrator from starting
  /// nodes.
  func endLeasing() {
    if hasBegun, leases.isEmpty { LeaseRecord.remove(in: directories) }
  }

  /// Renews the lease of a process when the process requests it.
  /// - Parameter requestTime: The time of the request on the clock of the process.
  func renew(_ name: String, requestTime: UInt64) {
    guard let process = processes[name] else { return }
    if isLost(name) { handle(.node(name, .heartbeat)) }
    guard leases.renew(name, incarnation: process.incarnation, at: BootClock.nanoseconds) else {
      return
    }
    control.send(FrameHeader(.renewed, sequence: requestTime), to: name)
  }

  /// Stops renewing the lease of a node that must be killed, or of its carrier node, so that the
  /// process ends when the lease expires.
  func giveUpLease(of name: String) { leases.giveUp(plan.host(of: name) ?? name) }
}
