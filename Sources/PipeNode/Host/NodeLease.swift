import CProcess
import PipeSupport
import PipeSystem
import PipeTransport

/// The right of a process to run, which its orchestrator renews. Without a renewal, the system
/// kills the process, even if it hangs or is stopped. So another process may replace it on another
/// host.
///
/// The term counts from the time of the request, by a clock that continues while the machine
/// sleeps. A late answer therefore grants no more time than was asked for.
final class NodeLease {
  private let term: Int64
  /// The time at which the lease expires. Unit: nanoseconds of ``BootClock``.
  private var end: Int64?
  private unowned let control: ControlLink

  /// How long a process waits for the first answer.
  private static let patience: Duration = .seconds(30)

  private init(_ term: Duration, from control: ControlLink) {
    self.term = term.clampedNanoseconds
    self.control = control
  }

  /// Waits for the lease, and renews it from then on. Before it has a lease, a process must not
  /// open anything that its predecessor may hold.
  /// - Returns: `false` if a signal has arrived that ends the process.
  /// - Throws: ``NodeSetupError`` if no orchestrator answers.
  static func take(
    _ term: Duration, from control: ControlLink, on loop: PollLoop, unless signals: SignalDescriptor
  ) throws -> Bool {
    let lease = NodeLease(term, from: control)
    control.onRenewal = { lease.renewed(askedAt: $0) }
    try control.connect()
    let isTaken = try Polling.wait(every: .milliseconds(2), until: .now + patience) {
      () throws(NodeSetupError) -> Bool? in
      if signals.next() != nil { return false }
      lease.askIfDue()
      control.read()
      return lease.end == nil ? nil : true
    }
    guard let isTaken else {
      throw NodeSetupError(
        "no orchestrator answered at '\(control.endpoint)' within \(patience.shortText); the node "
          + "must not run without a lease from the orchestrator" + NodeOffHost.reasonsForSilence)
    }
    if isTaken { lease.keep(on: loop) }
    return isTaken
  }

  // MARK: Asking

  private var lastAsked: Int64?

  private func ask() {
    let now = BootClock.nanoseconds
    lastAsked = now
    control.say(.renew, sequence: UInt64(now))
  }

  private func askIfDue() {
    if let lastAsked, BootClock.nanoseconds - lastAsked < term / 4 { return }
    ask()
  }

  private func keep(on loop: PollLoop) {
    loop.schedule(after: .nanoseconds(term / 4), for: self) {
      $0.ask()
      $0.keep(on: loop)
    }
  }

  // MARK: Answers

  /// - Parameter asked: The time of the request, by the clock of this process.
  private func renewed(askedAt asked: UInt64) {
    // An answer to a request that this process never made is ignored.
    guard let asked = Int64(exactly: asked), let lastAsked, asked <= lastAsked else { return }
    let next = asked + term
    guard next > max(end ?? 0, BootClock.nanoseconds), pr_kill_self_at(next) == 0 else { return }
    end = next
  }
}
