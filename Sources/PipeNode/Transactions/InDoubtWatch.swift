import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// A line in a participant's log about an event whose outcome was unknown.
package enum InDoubtReport: Hashable, Sendable {
  /// The reason why the participant asks for the outcome.
  package enum Cause: Hashable, Sendable, CaseIterable { case restart, lostConnection, silence }
  package enum Outcome: String, Hashable, Sendable { case committed, aborted }

  case inDoubt(TransactionID, after: Cause, coordinator: String)
  case resolved(TransactionID, Outcome)
}

extension InDoubtReport: CustomStringConvertible {
  package var description: String {
    switch self {
    case .inDoubt(let transaction, let cause, let coordinator):
      "synchronized event \(transaction) is in doubt after \(cause): the node has promised to take "
        + "the event, and asks '\(coordinator)' for the outcome"
    case .resolved(let transaction, let outcome):
      "synchronized event \(transaction) is no longer in doubt: the event was \(outcome)"
    }
  }
}

extension InDoubtReport.Cause: CustomStringConvertible {
  package var description: String {
    switch self {
    case .restart: "a restart"
    case .lostConnection: "a lost connection"
    case .silence:
      "\(Duration.nanoseconds(InDoubtWatch.queryInterval).shortText) without a message"
    }
  }
}

/// Tracks whether a participant knows the outcome of its prepared transaction. Decides when to ask
/// the coordinator, and logs that an outcome is in doubt.
final class InDoubtWatch {
  /// Whether the participant has asked for the outcome and has no answer.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  var isInDoubt: Bool
  /// The time at which the node was prepared. If an earlier process prepared the node, the time at
  /// which this process started. Unit: nanoseconds since 1970.
  @exclusivity(unchecked)
  private(set) var preparedAt = WallClock.nanoseconds
  private let coordinator: String
  private let log: NodeLog
  private let loop: PollLoop
  private let askCoordinator: () -> Void
  /// Whether a log message has reported that the outcome is unknown.
  private var isLogged = false
  @exclusivity(unchecked)
  private var timer: TimerQueue.ID?
  /// The time at which to ask the coordinator; `nil` if nothing is prepared. Unit: nanoseconds
  /// of ``BootClock``.
  @exclusivity(unchecked)
  private var queryTime: Int64?

  /// The time for which a prepared participant waits for the outcome before it asks the
  /// coordinator. Unit: nanoseconds.
  fileprivate static let queryInterval: Int64 = 200_000_000

  /// - Parameter askCoordinator: Called when the coordinator has not sent the outcome within
  ///   `queryInterval`.
  init(
    isInDoubt: Bool, coordinator: String, loop: PollLoop, log: NodeLog,
    _ askCoordinator: @escaping () -> Void
  ) {
    self.isInDoubt = isInDoubt
    self.coordinator = coordinator
    self.loop = loop
    self.log = log
    self.askCoordinator = askCoordinator
  }

  func prepared() { preparedAt = WallClock.nanoseconds }

  /// Logs, once, that the outcome of the prepared transaction is unknown.
  func note(_ cause: InDoubtReport.Cause, of prepared: PreparedStep?) {
    guard !isLogged, let prepared else { return }
    isLogged = true
    log.note(
      "\(InDoubtReport.inDoubt(prepared.transaction, after: cause, coordinator: coordinator))")
  }

  /// Logs the outcome of an event that was in doubt.
  func note(
    _ outcome: InDoubtReport.Outcome, of transaction: TransactionID, prepared: PreparedStep?
  ) {
    guard isLogged, prepared?.transaction == transaction else { return }
    isLogged = false
    log.note("\(InDoubtReport.resolved(transaction, outcome))")
  }

  // MARK: Query timer

  func startTimer() {
    queryTime = BootClock.nanoseconds + Self.queryInterval
    schedule(after: Self.queryInterval)
  }

  func stopTimer() { queryTime = nil }

  /// Schedules the timer. The timer continues to run when the outcome arrives: usually, another
  /// transaction is prepared soon, and restarting a timer has a cost.
  private func schedule(after nanoseconds: Int64) {
    guard timer == nil else { return }
    timer = loop.schedule(after: .nanoseconds(nanoseconds), for: self) { $0.fired() }
  }

  private func fired() {
    timer = nil
    guard let queryTime else { return }
    let remaining = queryTime - BootClock.nanoseconds
    guard remaining <= 0 else { return schedule(after: remaining) }
    self.queryTime = nil
    askCoordinator()
  }

  func stop() {
    if let timer { loop.cancel(timer) }
    timer = nil
    queryTime = nil
  }
}
