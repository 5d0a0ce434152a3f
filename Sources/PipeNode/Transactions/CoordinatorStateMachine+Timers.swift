import PipeMachines
import PipeWire

// What becomes due.

extension CoordinatorStateMachine {
  /// What a timer is for, which says how long it takes; its owner may fire it late, or twice.
  package enum Timer: Hashable, Sendable {
    /// All participants are to have answered.
    case votes(TransactionID)
    /// COMMIT is sent again.
    case resend(TransactionID)
    /// A request that is not to wait has not got its locks. It waits on where others did get the event
    /// meanwhile: its turn comes.
    case locks(RequestID)
    /// The caller's own deadline.
    case deadline(RequestID, Duration)
    /// A waiting request is tried again, if nothing else has caused that: news may be lost.
    case retry(RequestID)
    /// A request that others have overtaken has kept them back long enough.
    case patience(RequestID)
    /// Those who run have joined by now.
    case join
  }

  /// A timer has fired.
  package mutating func fired(_ timer: Timer) -> [Action] {
    switch timer {
    case .votes(let transaction): return take(.votesOverdue, transaction)
    case .resend(let transaction):
      let actions = take(.resendDue, transaction)
      return transactions[transaction] == nil ? actions : actions + [.startTimer(timer)]
    case .locks(let id): return locksOverdue(id)
    case .deadline(let id, _): return deadlinePassed(id)
    case .retry(let id): return requests.retry(id) ? grant() : []
    case .patience(let id):
      guard requests[id] != nil else { return [] }
      requests.stopKeepingBack(id)
      return grant()
    case .join:
      participants.endJoining()
      return endJoining() + grant()
    }
  }

  private mutating func locksOverdue(_ id: RequestID) -> [Action] {
    guard let call = requests[id], call.isQueued else { return [] }
    let needed = call.request.participants
    if participants.commitCount(of: needed) != call.commitsSeen { return startLockTimer(id) }
    let missing = needed.first { !connectedParticipants.contains($0) }
    return finish(id, .atomic(missing.map { .unavailable($0) } ?? requests.busy(call))) + grant()
  }

  private mutating func deadlinePassed(_ id: RequestID) -> [Action] {
    guard let call = requests[id] else { return [] }
    switch call.phase {
    case .queued, .sleeping:
      return finish(id, .atomic(call.failure ?? requests.busy(call))) + grant()
    case .deferred(let refusals):
      return finish(id, .atomic(.refused(refusals))) + grant()
    case .running:
      requests.setOverdue(id)
      return []
    }
  }

  /// Gives a request that is queued its time to get its locks, from now on.
  mutating func startLockTimer(_ id: RequestID) -> [Action] {
    requests.startWaitingForLocks(id, of: participants)
    return [.startTimer(.locks(id))]
  }
}
