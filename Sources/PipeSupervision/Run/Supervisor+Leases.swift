import PipeClient
import PipeSupport
import PipeSystem
import PipeWire

/// Leases of processes on other hosts, which must not run on without this orchestrator, so that other
/// processes can replace them.
extension Supervisor {
  /// Starts the nodes as soon as no process can be left that has a lease from a former orchestrator.
  func begin() {
    // Also if no node may move any more: a process with a lease may still live where another one must
    // start.
    guard let left = LeaseRecord.left(in: directories) else { return start() }
    // Adopted processes get new leases from this orchestrator.
    let leased =
      plan.nodes.filter { $0.lease != nil && $0.host == nil }.map(\.name)
      + lock.formerProcesses.filter(\.launch.hasLease).map(\.node)
    if !leased.isEmpty, leased.allSatisfy({ options.adopted[$0] != nil }) { return start() }
    reporter.warning(
      "a former orchestrator of this topology was killed, and its nodes with 'on_host_loss: move' "
        + "may keep running for \(left.shortText); no node is started before that time has passed")
    loop.schedule(after: left, for: self) { $0.start() }
  }

  private func start() {
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

  /// Ends the leases after the run. The file stays if a lease may still be running, or if no node was
  /// started because of the leases of a former orchestrator.
  func endLeasing() {
    if hasBegun, leases.isEmpty { LeaseRecord.remove(in: directories) }
  }

  /// Renews the lease of a process at its request.
  /// - Parameter requestTime: The time of the request, by the clock of the process.
  func renew(_ name: String, requestTime: UInt64) {
    guard let process = processes[name] else { return }
    if isLost(name) { handle(.node(name, .heartbeat)) }
    guard leases.renew(name, incarnation: process.incarnation, at: BootClock.nanoseconds) else {
      return
    }
    control.send(FrameHeader(.renewed, sequence: requestTime), to: name)
  }

  /// Gives up the lease of a node that must be killed, or of its carrier node, so that the lease does
  /// not keep the process alive.
  func giveUpLease(of name: String) { leases.giveUp(plan.host(of: name) ?? name) }
}
