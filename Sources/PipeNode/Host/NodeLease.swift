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
  private var expiry: Int64?
  private unowned let control: ControlLink

  /// How long a process waits for the first answer.
  private static let answerTimeout: Duration = .seconds(30)

  private init(_ term: Duration, from control: ControlLink) {
    self.term = term.clampedNanoseconds
    self.control = control
  }

  /// Waits for the lease, and renews it from then on. Before it has a lease, a process must not
  /// open anything that its predecessor may hold.
  /// - Returns: `false` if a signal has arrived that ends the process.
  /// - Throws: ``NodeSetupError`` if no orchestrator answers.
  static func acquire(
    _ term: Duration, from control: ControlLink, on loop: PollLoop,
    interruptedBy signals: SignalDescriptor
  ) throws -> Bool {
    let lease = NodeLease(term, from: control)
    control.onRenewal = { lease.applyRenewal(requestedAt: $0) }
    try control.connect()
    let isAcquired = try Polling.wait(every: .milliseconds(2), until: .now + answerTimeout) {
      () throws(NodeSetupError) -> Bool? in
      if signals.next() != nil { return false }
      lease.requestRenewalIfDue()
      control.read()
      return lease.expiry == nil ? nil : true
    }
    guard let isAcquired else {
      throw NodeSetupError(
        "no orchestrator answered at '\(control.endpoint)' within \(answerTimeout.shortText); the node "
          + "must not run without a lease from the orchestrator" + NodeNetwork.noAnswerHint)
    }
    if isAcquired { lease.scheduleRenewal(on: loop) }
    return isAcquired
  }

  // MARK: Asking

  private var lastRequestTime: Int64?

  private func requestRenewal() {
    let now = BootClock.nanoseconds
    lastRequestTime = now
    control.send(.renew, sequence: UInt64(now))
  }

  private func requestRenewalIfDue() {
    if let lastRequestTime, BootClock.nanoseconds - lastRequestTime < term / 4 { return }
    requestRenewal()
  }

  private func scheduleRenewal(on loop: PollLoop) {
    loop.schedule(after: .nanoseconds(term / 4), for: self) {
      $0.requestRenewal()
      $0.scheduleRenewal(on: loop)
    }
  }

  // MARK: Answers

  /// - Parameter requestTime: The time of the request, by the clock of this process.
  private func applyRenewal(requestedAt requestTime: UInt64) {
    // An answer to a request that this process never made is ignored.
    guard let requestTime = Int64(exactly: requestTime), let lastRequestTime,
      requestTime <= lastRequestTime
    else { return }
    let next = requestTime + term
    guard next > max(expiry ?? 0, BootClock.nanoseconds), pr_kill_self_at(next) == 0 else { return }
    expiry = next
  }
}
