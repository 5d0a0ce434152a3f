import PipeMachines
import PipeTransport
import PipeWire

/// The timers of a coordinator.
final class CoordinatorTimers {
  typealias Timer = CoordinatorStateMachine.Timer

  private let loop: PollLoop
  private let fire: (Timer) -> Void
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var runningTimerIDs: [Timer: TimerQueue.ID] = [:]

  /// The time that participants have to answer before the event is aborted.
  private static let voteTimeout: Duration = .seconds(2)
  /// The time that participants have to acknowledge a commit before the commit is sent again.
  private static let resendInterval: Duration = .milliseconds(200)
  /// The time for which a request that is tried only once waits for its locks. The time starts
  /// again if a participant of the request has taken part in a commit.
  private static let lockTimeout: Duration = .seconds(1)
  /// The time for which the coordinator waits after its start for the running participants to join.
  private static let joinTimeout: Duration = .seconds(1)
  /// The interval after which a waiting request is tried again even if no participant has reported
  /// a change.
  private static let retryInterval: Duration = .milliseconds(500)
  /// The time for which an overtaken request blocks later requests.
  private static let priorityTimeout: Duration = .milliseconds(50)

  init(loop: PollLoop, _ fire: @escaping (Timer) -> Void) {
    self.loop = loop
    self.fire = fire
  }

  /// Starts a timer, or starts it again if it is already running.
  /// - Parameter evaluationLimit: The additional time that participants may take to answer.
  func start(_ timer: Timer, _ evaluationLimit: Duration) {
    let delay =
      switch timer {
      case .votes: Self.voteTimeout + evaluationLimit
      case .resend: Self.resendInterval
      case .locks: Self.lockTimeout
      case .deadline(_, let limit): limit
      case .retry: Self.retryInterval
      case .priorityTimeout: Self.priorityTimeout
      case .join: Self.joinTimeout
      }
    let id = loop.schedule(after: delay, for: self) { timers in
      timers.runningTimerIDs[timer] = nil
      timers.fire(timer)
    }
    if let former = runningTimerIDs.updateValue(id, forKey: timer) { loop.cancel(former) }
  }

  func cancel(_ timer: Timer) {
    guard !runningTimerIDs.isEmpty, let id = runningTimerIDs.removeValue(forKey: timer) else {
      return
    }
    loop.cancel(id)
  }

  func cancelAll() {
    for id in runningTimerIDs.values { loop.cancel(id) }
    runningTimerIDs = [:]
  }
}

// The timers of the state machine.

extension CoordinatorStateMachine {
  /// A timer, whose case determines its duration. The owner may fire a timer late or twice.
  package enum Timer: Hashable, Sendable {
    /// The participants have had time to answer.
    case votes(TransactionID)
    /// The COMMIT must be sent again.
    case resend(TransactionID)
    /// A request that is tried only once has waited too long for its locks. If its participants
    /// have taken part in commits since the timer was started, the request remains queued, because
    /// it will have its turn.
    case locks(RequestID)
    /// The deadline that the caller has set for its request has passed.
    case deadline(RequestID, Duration)
    /// A waiting request must be tried again, even if no participant has reported a change. The
    /// notification may have been lost.
    case retry(RequestID)
    /// An overtaken request has blocked later requests long enough.
    case priorityTimeout(RequestID)
    /// The running participants have had time to join.
    case join
  }

  /// Handles a timer that has fired.
  package mutating func fired(_ timer: Timer) -> [Action] {
    switch timer {
    case .votes(let transaction): return take(.votesOverdue, transaction)
    case .resend(let transaction):
      let actions = take(.resendDue, transaction)
      return transactionsByID[transaction] == nil ? actions : actions + [.startTimer(timer)]
    case .locks(let id): return handleOverdueLocks(id)
    case .deadline(let id, _): return handlePassedDeadline(id)
    case .retry(let id): return requests.retry(id) ? beginReadyRequests() : []
    case .priorityTimeout(let id):
      guard requests[id] != nil else { return [] }
      requests.endPriority(id)
      return beginReadyRequests()
    case .join:
      participants.endJoining()
      return endJoining() + beginReadyRequests()
    }
  }

  private mutating func handleOverdueLocks(_ id: RequestID) -> [Action] {
    guard let pending = requests[id], pending.isQueued else { return [] }
    let requiredParticipants = pending.request.participants
    if participants.commitCount(of: requiredParticipants) != pending.initialCommitCount {
      return startLockTimer(id)
    }
    let missing = requiredParticipants.first { !participants.isConnected($0) }
    return finish(id, .atomic(missing.map { .unavailable($0) } ?? requests.busy(pending)))
      + beginReadyRequests()
  }

  private mutating func handlePassedDeadline(_ id: RequestID) -> [Action] {
    guard let pending = requests[id] else { return [] }
    switch pending.phase {
    case .queued, .sleeping:
      return finish(id, .atomic(pending.failure ?? requests.busy(pending))) + beginReadyRequests()
    case .deferred(let refusals):
      return finish(id, .atomic(.refused(refusals))) + beginReadyRequests()
    case .running:
      requests.limitToCurrentAttempt(id)
      return []
    }
  }

  /// Starts the timer that limits the wait of a queued request for its locks.
  mutating func startLockTimer(_ id: RequestID) -> [Action] {
    requests.startWaitingForLocks(id, of: participants)
    return [.startTimer(.locks(id))]
  }
}
