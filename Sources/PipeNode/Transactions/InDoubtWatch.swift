import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// Whether a participant is told the end of what it is prepared for: when it asks, and what its log
/// says of that.
final class InDoubtWatch {
  /// Why it asks.
  enum Cause {
    case restart, lostConnection, silence

    fileprivate var text: String {
      switch self {
      case .restart: "a restart"
      case .lostConnection: "a lost connection"
      case .silence:
        "a silence of \(Duration.nanoseconds(InDoubtWatch.queryInterval).shortText)"
      }
    }
  }

  /// How an event has ended.
  enum End {
    case committed, aborted

    fileprivate var text: String {
      switch self {
      case .committed: "committed"
      case .aborted: "given up"
      }
    }
  }

  /// Whether it has asked for the end, and is not told.
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  var isInDoubt: Bool
  /// Since when it is prepared, or this process runs. Unit: nanoseconds since 1970.
  @exclusivity(unchecked)
  private(set) var preparedAt = WallClock.nanoseconds
  private let coordinator: String
  private let log: NodeLog
  private let loop: PollLoop
  private let query: () -> Void
  /// Whether the log says that the end is not known.
  private var isNoted = false
  @exclusivity(unchecked)
  private var timer: TimerQueue.ID?
  /// When the coordinator is to be asked; `nil` where nothing is prepared.
  @exclusivity(unchecked)
  private var due: Int64?

  /// How long a prepared participant waits for the end before it asks. Unit: nanoseconds.
  private static let queryInterval: Int64 = 200_000_000

  /// - Parameter query: Called when the coordinator has not told the end for a while.
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

  /// Says, once, that nobody has told the end of what is prepared.
  func note(_ cause: Cause, of prepared: PreparedStep?) {
    guard !isNoted, let prepared else { return }
    isNoted = true
    log.note(
      "synchronized event \(prepared.transaction) is in doubt after \(cause.text): the node has "
        + "promised to take it, and asks '\(coordinator)' how it has ended")
  }

  /// Says how an event has ended that was in doubt.
  func note(_ end: End, of transaction: TransactionID, prepared: PreparedStep?) {
    guard isNoted, prepared?.transaction == transaction else { return }
    isNoted = false
    log.note("synchronized event \(transaction) is in doubt no more: it was \(end.text)")
  }

  // MARK: The timer

  func startTimer() {
    due = BootClock.nanoseconds + Self.queryInterval
    schedule(after: Self.queryInterval)
  }

  func stopTimer() { due = nil }

  /// The timer runs on when the query is not due any more: that is more often than not, and soon
  /// something else is prepared.
  private func schedule(after nanoseconds: Int64) {
    guard timer == nil else { return }
    timer = loop.schedule(after: .nanoseconds(nanoseconds), for: self) { $0.fired() }
  }

  private func fired() {
    timer = nil
    guard let due else { return }
    let left = due - BootClock.nanoseconds
    guard left <= 0 else { return schedule(after: left) }
    self.due = nil
    query()
  }

  func stop() {
    if let timer { loop.cancel(timer) }
    timer = nil
    due = nil
  }
}
