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
  private var running: [Timer: TimerQueue.ID] = [:]

  /// How long participants have to answer before the event is aborted.
  private static let voteTimeout: Duration = .seconds(2)
  /// How long participants have to acknowledge a commit before it is sent again.
  private static let resendInterval: Duration = .milliseconds(200)
  /// How long a request that must not wait stays queued for its locks while no commit involves its
  /// participants.
  private static let lockTimeout: Duration = .seconds(1)
  /// How long running participants may take to join after a start.
  private static let joinTimeout: Duration = .seconds(1)
  /// The interval after which a waiting request is retried if no participant reports a change.
  private static let retryInterval: Duration = .milliseconds(500)
  /// How long an overtaken request keeps other requests back.
  private static let priorityTimeout: Duration = .milliseconds(50)

  init(loop: PollLoop, _ fire: @escaping (Timer) -> Void) {
    self.loop = loop
    self.fire = fire
  }

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

// The timers of the state machine.

extension CoordinatorStateMachine {
  /// The purpose of a timer, which determines its duration. The owner may fire a timer late, or
  /// twice.
  package enum Timer: Hashable, Sendable {
    /// All participants should have answered.
    case votes(TransactionID)
    /// COMMIT is sent again.
    case resend(TransactionID)
    /// A request that must not wait has not got its locks in time. It stays queued if its
    /// participants have taken part in commits since: its turn comes.
    case locks(RequestID)
    /// The caller's own deadline.
    case deadline(RequestID, Duration)
    /// A waiting request is retried, unless another event has caused that: notifications may be
    /// lost.
    case retry(RequestID)
    /// A request that others have overtaken has kept them back long enough.
    case priorityTimeout(RequestID)
    /// All running participants should have joined.
    case join
  }

  /// Handles a timer that has fired.
  package mutating func fired(_ timer: Timer) -> [Action] {
    switch timer {
    case .votes(let transaction): return take(.votesOverdue, transaction)
    case .resend(let transaction):
      let actions = take(.resendDue, transaction)
      return transactions[transaction] == nil ? actions : actions + [.startTimer(timer)]
    case .locks(let id): return locksOverdue(id)
    case .deadline(let id, _): return deadlinePassed(id)
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

  private mutating func locksOverdue(_ id: RequestID) -> [Action] {
    guard let pending = requests[id], pending.isQueued else { return [] }
    let requiredParticipants = pending.request.participants
    if participants.commitCount(of: requiredParticipants) != pending.initialCommitCount {
      return startLockTimer(id)
    }
    let missing = requiredParticipants.first { !connectedParticipants.contains($0) }
    return finish(id, .atomic(missing.map { .unavailable($0) } ?? requests.busy(pending)))
      + beginReadyRequests()
  }

  private mutating func deadlinePassed(_ id: RequestID) -> [Action] {
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

  /// Starts the time that a queued request has to get its locks.
  mutating func startLockTimer(_ id: RequestID) -> [Action] {
    requests.startWaitingForLocks(id, of: participants)
    return [.startTimer(.locks(id))]
  }
}
