import CProcess
import PipeSupport
import PipeSystem
import PipeTransport

/// The lease of a process: the right to run until the lease expires. The orchestrator renews the
/// lease. If the lease expires, the system kills the process, even if the process hangs or is
/// paused. After the expiry, another host can safely start a replacement.
///
/// The term begins at the time of the request, by a clock that also advances while the machine is
/// suspended. So a late answer does not extend the lease beyond the requested time.
final class NodeLease {
  private let termNanoseconds: Int64
  /// The time at which the lease expires. Unit: nanoseconds of ``BootClock``.
  private var expiryTime: Int64?
  private unowned let control: ControlLink

  /// The time for which a process waits for the first answer.
  private static let answerTimeout: Duration = .seconds(30)

  private init(_ term: Duration, from control: ControlLink) {
    self.termNanoseconds = term.clampedNanoseconds
    self.control = control
  }

  /// Waits for the lease, and schedules its renewals. Before a process has its lease, it must not
  /// open anything that an earlier incarnation may still use.
  /// - Returns: Whether the process has the lease. `false` if a signal that ends the process has
  ///   arrived.
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
      return lease.expiryTime == nil ? nil : true
    }
    guard let isAcquired else {
      throw NodeSetupError(
        "no orchestrator answered at '\(control.endpoint)' within \(answerTimeout.shortText); the node "
          + "must not run without a lease from the orchestrator" + NodeNetwork.noAnswerHint)
    }
    if isAcquired { lease.scheduleRenewal(on: loop) }
    return isAcquired
  }

  // MARK: Requests for renewals

  private var lastRequestTime: Int64?

  private func requestRenewal() {
    let now = BootClock.nanoseconds
    lastRequestTime = now
    control.send(.renew, sequence: UInt64(now))
  }

  private func requestRenewalIfDue() {
    if let lastRequestTime, BootClock.nanoseconds - lastRequestTime < termNanoseconds / 4 { return }
    requestRenewal()
  }

  private func scheduleRenewal(on loop: PollLoop) {
    loop.schedule(after: .nanoseconds(termNanoseconds / 4), for: self) {
      $0.requestRenewal()
      $0.scheduleRenewal(on: loop)
    }
  }

  // MARK: Answers from the orchestrator

  /// Extends the lease after the orchestrator has answered a request.
  /// - Parameter requestTime: The time of the request, by the clock of this process.
  private func applyRenewal(requestedAt requestTime: UInt64) {
    // Ignores an answer to a request that this process has not made.
    guard let requestTime = Int64(exactly: requestTime), let lastRequestTime,
      requestTime <= lastRequestTime
    else { return }
    let next = requestTime + termNanoseconds
    guard next > max(expiryTime ?? 0, BootClock.nanoseconds), pr_kill_self_at(next) == 0 else {
      return
    }
    expiryTime = next
  }
}
