import PipeTransport

/// The timers of a coordinator.
final class CoordinatorTimers {
  typealias Timer = CoordinatorStateMachine.Timer

  private let loop: PollLoop
  private let fire: (Timer) -> Void
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private var running: [Timer: TimerQueue.ID] = [:]

  /// How long participants have to answer before the event is aborted.
  private static let voteTimeout: Duration = .seconds(2)
  /// How long participants have to acknowledge a commit before it is sent again.
  private static let resendInterval: Duration = .milliseconds(200)
  /// How long a request that is not to wait waits while its participants have part in no commit.
  private static let lockTimeout: Duration = .seconds(1)
  /// How long participants that run may take to join after a start.
  private static let joinTimeout: Duration = .seconds(1)
  /// How long a request that waits is left alone, where no participant tells of a change.
  private static let retryInterval: Duration = .milliseconds(500)
  /// How long a request that was overtaken keeps others back.
  private static let patience: Duration = .milliseconds(50)

  init(loop: PollLoop, _ fire: @escaping (Timer) -> Void) {
    self.loop = loop
    self.fire = fire
  }

  /// - Parameter evaluationLimit: How long participants may take beside that to answer.
  func start(_ timer: Timer, _ evaluationLimit: Duration) {
    let delay =
      switch timer {
      case .votes: Self.voteTimeout + evaluationLimit
      case .resend: Self.resendInterval
      case .locks: Self.lockTimeout
      case .deadline(_, let limit): limit
      case .retry: Self.retryInterval
      case .patience: Self.patience
      case .join: Self.joinTimeout
      }
    let id = loop.schedule(after: delay, for: self) { timers in
      timers.running[timer] = nil
      timers.fire(timer)
    }
    if let former = running.updateValue(id, forKey: timer) { loop.cancel(former) }
  }

  func cancel(_ timer: Timer) {
    guard !running.isEmpty, let id = running.removeValue(forKey: timer) else { return }
    loop.cancel(id)
  }

  func cancelAll() {
    for id in running.values { loop.cancel(id) }
    running = [:]
  }
}
