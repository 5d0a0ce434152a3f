import PipeClient
import PipeSupport
import PipeSystem
import PipeWire

/// Processes on other hosts that must not go on without this one, so that others may take their place.
extension Supervisor {
  /// Starts the nodes, as soon as no process can be left that a former orchestrator had granted a lease.
  func begin() {
    // Also where none may move any more: one that was granted a lease may live where another one is to start.
    guard let left = LeaseMark.left(in: directories) else { return start() }
    // Adopted processes are granted their leases from here on.
    let leased =
      plan.nodes.filter { $0.lease != nil && $0.host == nil }.map(\.name)
      + lock.formerProcesses.filter(\.launch.hasLease).map(\.node)
    if !leased.isEmpty, leased.allSatisfy({ options.adopted[$0] != nil }) { return start() }
    reporter.warning(
      "an orchestrator of this topology was killed. Nodes with 'on_host_loss: move' may go on for "
        + "\(left.shortText), and none is started before that")
    loop.schedule(after: left, for: self) { $0.start() }
  }

  private func start() {
    guard !isStopping else { return }
    hasBegun = true
    if let term = plan.leaseTerm {
      do {
        try LeaseMark.write(term, in: directories)
      } catch {
        reporter.warning("\(error)")
        return requestStop(.init(exitCode: 1, reason: "\(error)"))
      }
    }
    handle(.start)
  }

  /// After the run: no process has a lease any more, unless one was given up before that was certain, or none was
  /// started since a former orchestrator's may live.
  func endLeasing() {
    if hasBegun, leases.isEmpty { LeaseMark.remove(in: directories) }
  }

  /// A process asks for its lease to go on.
  /// - Parameter asked: When it did, by its own clock.
  func renew(_ name: String, asked: UInt64) {
    guard let process = processes[name] else { return }
    if isLost(name) { handle(.node(name, .heartbeat)) }
    guard leases.renew(name, incarnation: process.incarnation, at: BootClock.nanoseconds) else {
      return
    }
    control.send(FrameHeader(.renewed, sequence: asked), to: name)
  }

  /// A node is to be killed, or that in whose process it lives: its lease is not to keep it.
  func giveUpLease(of name: String) { leases.giveUp(plan.host(of: name) ?? name) }
}
