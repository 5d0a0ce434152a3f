import CProcess
import PipeSupport
import PipeSystem
import PipeTransport

/// The right of a process to go on, which its orchestrator renews: where that does not, the system kills the process,
/// also where it hangs or is stopped. So another one may take its place on another host.
///
/// It counts from when the process asked, by a clock that goes on while the machine sleeps: an answer that was long
/// on its way gives no more than what was asked for.
final class NodeLease {
  private let term: Int64
  /// When it runs out. Unit: nanoseconds of ``BootClock``.
  private var end: Int64?
  private unowned let control: ControlLink

  /// How long a process waits for its first answer.
  private static let patience: Duration = .seconds(30)

  private init(_ term: Duration, from control: ControlLink) {
    self.term = term.clampedNanoseconds
    self.control = control
  }

  /// Waits for the lease, and has it renewed from then on. Before there is one, a process must not open anything
  /// that its predecessor may hold.
  /// - Returns: `false` where a signal has come that ends the process.
  /// - Throws: ``NodeProblem`` where nobody answers.
  static func take(
    _ term: Duration, from control: ControlLink, on loop: PollLoop, unless signals: SignalDescriptor
  ) throws -> Bool {
    let lease = NodeLease(term, from: control)
    control.onRenewal = { lease.renewed(askedAt: $0) }
    try control.connect()
    let isTaken = try Polling.wait(every: .milliseconds(2), until: .now + patience) {
      () throws(NodeProblem) -> Bool? in
      if signals.next() != nil { return false }
      lease.askIfDue()
      control.read()
      return lease.end == nil ? nil : true
    }
    guard let isTaken else {
      throw NodeProblem(
        "no orchestrator answered at '\(control.endpoint)' within \(patience.shortText), and it has a lease, without "
          + "which it must not run" + NodeOffHost.reasonsForSilence)
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

  /// - Parameter asked: When this process asked, by its own clock.
  private func renewed(askedAt asked: UInt64) {
    // An answer to what this process has never asked says nothing.
    guard let asked = Int64(exactly: asked), let lastAsked, asked <= lastAsked else { return }
    let next = asked + term
    guard next > max(end ?? 0, BootClock.nanoseconds), pr_kill_self_at(next) == 0 else { return }
    end = next
  }
}
