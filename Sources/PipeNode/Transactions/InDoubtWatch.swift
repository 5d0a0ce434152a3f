import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// Tracks whether a participant knows the outcome of its prepared transaction: when it asks, and
/// what it logs about that.
final class InDoubtWatch {
  /// The reason why the participant asks.
  enum Cause {
    case restart, lostConnection, silence

    fileprivate var text: String {
      switch self {
      case .restart: "a restart"
      case .lostConnection: "a lost connection"
      case .silence:
        "\(Duration.nanoseconds(InDoubtWatch.queryInterval).shortText) without a message"
      }
    }
  }

  /// The outcome of an event.
  enum Outcome {
    case committed, aborted

    fileprivate var text: String {
      switch self {
      case .committed: "committed"
      case .aborted: "aborted"
      }
    }
  }

  /// Whether the participant has asked for the outcome and has no answer.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  var isInDoubt: Bool
  /// The time at which the participant became prepared, or this process started. Unit: nanoseconds
  /// since 1970.
  @exclusivity(unchecked)
  private(set) var preparedAt = WallClock.nanoseconds
  private let coordinator: String
  private let log: NodeLog
  private let loop: PollLoop
  private let query: () -> Void
  /// Whether the log says that the outcome is unknown.
  private var isLogged = false
  @exclusivity(unchecked)
  private var timer: TimerQueue.ID?
  /// The time at which to ask the coordinator; `nil` if nothing is prepared. Unit: nanoseconds
  /// of ``BootClock``.
  @exclusivity(unchecked)
  private var queryTime: Int64?

  /// How long a prepared participant waits for the outcome before it asks. Unit: nanoseconds.
  private static let queryInterval: Int64 = 200_000_000

  /// - Parameter query: Called when the coordinator has not sent the outcome for a while.
  init(
    isInDoubt: Bool, coordinator: String, loop: PollLoop, log: NodeLog,
    _ query: @escaping () -> Void
  ) {
    self.isInDoubt = isInDoubt
    self.coordinator = coordinator
    self.loop = loop
    self.log = log
    self.query = query
  }

  func prepared() { preparedAt = WallClock.nanoseconds }

  /// Logs, once, that the outcome of the prepared transaction is unknown.
  func note(_ cause: Cause, of prepared: PreparedStep?) {
    guard !isLogged, let prepared else { return }
    isLogged = true
    log.note(
      "synchronized event \(prepared.transaction) is in doubt after \(cause.text): the node has "
        + "promised to take the event, and asks '\(coordinator)' for the outcome")
  }

  /// Logs the outcome of an event that was in doubt.
  func note(_ outcome: Outcome, of transaction: TransactionID, prepared: PreparedStep?) {
    guard isLogged, prepared?.transaction == transaction else { return }
    isLogged = false
    log.note(
      "synchronized event \(transaction) is no longer in doubt: the event was \(outcome.text)")
  }

  // MARK: The timer

  func startTimer() {
    queryTime = BootClock.nanoseconds + Self.queryInterval
    schedule(after: Self.queryInterval)
  }

  func stopTimer() { queryTime = nil }

  /// Schedules the timer. It continues to run when the query is no longer due: that is the usual
  /// case, and another transaction is prepared soon.
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
    query()
  }

  func stop() {
    if let timer { loop.cancel(timer) }
    timer = nil
    queryTime = nil
  }
}
