import PipeMachines
import PipeWire

// What callers ask for, and what they are told.

extension CoordinatorStateMachine {
  /// The coordinator has started; its journal has been read.
  package mutating func start() -> [Action] {
    let resends = transactions.keys.sorted().map { Action.startTimer(.resend($0)) }
    return [.record(.start(epoch: epoch)), .startTimer(.join)] + resends
  }

  /// The coordinator is to end: gives up what is not decided, and takes nothing any more.
  package mutating func stop() -> [Action] {
    isStarted = false
    hasEnded = true
    var actions: [Action] = []
    for call in calls.all {
      if call.isRunning {
        calls.update(call.place) { $0.isOverdue = true }
      } else {
        actions += finish(call.id, .atomic(.unavailable(name)))
      }
    }
    for transaction in transactions.keys.sorted() { actions += take(.votesOverdue, transaction) }
    return actions
  }

  /// A caller asks for an event, or asks once more.
  package mutating func request(_ id: RequestID, _ request: TransactionRequest) -> [Action] {
    if let result = results[id] { return [.reply(id, result)] }
    guard calls[id] == nil else { return [] }
    queue.append(calls.add(id, request))
    var actions: [Action] = []
    if case .await(let limit?) = request.mode {
      actions.append(.startTimer(.deadline(id, limit)))
    }
    actions += grant()
    guard calls[id]?.isQueued == true else { return actions }
    switch request.mode {
    case .try, .broadcast: actions += waitForLocks(id)
    case .await: break
    }
    return actions
  }

  /// A caller waits no longer for its request, if nothing is under way for it.
  package mutating func withdraw(_ id: RequestID) -> [Action] {
    switch calls[id]?.phase {
    case .queued, .sleeping, .deferred:
      return finish(id, .atomic(.unavailable(name))) + grant()
    case .running:
      calls.update(id) { $0.isOverdue = true }
      return []
    case nil: return []
    }
  }

  /// A caller waits for no answer to a request before this one: those may be forgotten first.
  package mutating func settle(_ caller: String, before oldest: UInt64) {
    awaited[caller] = max(awaited[caller] ?? 0, oldest)
    guard awaited.count > 2 * resultCapacity else { return }
    let callers = Set(results.keys.map(\.caller))
    awaited = awaited.filter { callers.contains($0.key) }
  }

  /// Whether an answer must be kept: its participants need the record, or its caller may ask again.
  private func isNeeded(_ id: RequestID) -> Bool {
    if let transaction = resultTransactions[id], transactions[transaction] != nil { return true }
    return resultOrder.count < 2 * resultCapacity && id.number >= awaited[id.caller] ?? 0
  }

  /// A caller that was told that none has moved is to ask anew under the same number.
  package mutating func renew(_ id: RequestID) {
    guard case .atomic(let reply) = results[id], !reply.isCommitted else { return }
    results[id] = nil
    resultTransactions[id] = nil
    let others = resultOrder.removeAll().filter { $0 != id }
    resultOrder.prepend(contentsOf: others)
  }

  /// A caller asks what has become of its request.
  ///
  /// A request that never came will not be taken when it comes later.
  package mutating func ask(_ id: RequestID) -> [Action] {
    if let result = results[id] { return [.reply(id, result)] }
    switch calls[id]?.phase {
    case .running(let transaction):
      return [.reply(id, .atomic(.unknown(transaction)))]
    case .queued, .sleeping, .deferred:
      // The answer comes when there is one.
      return []
    case nil:
      let reply = TransactionReply.atomic(.unavailable(name))
      return remember(reply, of: id) + [.reply(id, reply)]
    }
  }

  /// A caller asks, by a request of its own, what has become of a transaction.
  package mutating func ask(_ id: RequestID, for transaction: TransactionID) -> [Action] {
    if let caller = callers[transaction], let result = results[caller] {
      return [.reply(id, result)]
    }
    let isUndecided = transactions[transaction] != nil
    // A number that was not given yet, or that was forgotten: nothing can be said of it.
    let isKnown =
      transaction > forgottenThrough
      && transaction <= TransactionID(epoch: epoch, sequence: sequence)
    let reply: SynchronizedReply =
      isUndecided || !isKnown ? .unknown(transaction) : .unavailable(name)
    return [.reply(id, .atomic(reply))]
  }

  /// A timer has fired.
  package mutating func fired(_ timer: Timer) -> [Action] {
    switch timer {
    case .votes(let transaction): return take(.votesOverdue, transaction)
    case .resend(let transaction):
      let actions = take(.resendDue, transaction)
      return transactions[transaction] == nil ? actions : actions + [.startTimer(timer)]
    case .locks(let id):
      guard let call = calls[id], call.isQueued else { return [] }
      if commitCount(of: call) != call.commitsSeen { return waitForLocks(id) }
      let missing = call.request.participants.first { !connectedParticipants.contains($0) }
      let reply =
        missing.map { .unavailable($0) } ?? SynchronizedReply.busy(lockedParticipants(of: call))
      return finish(id, .atomic(reply)) + grant()
    case .deadline(let id, _):
      guard let call = calls[id] else { return [] }
      switch call.phase {
      case .queued, .sleeping:
        let reply = call.failure ?? .busy(lockedParticipants(of: call))
        return finish(id, .atomic(reply)) + grant()
      case .deferred(let refusals):
        return finish(id, .atomic(SynchronizedReply(refusals))) + grant()
      case .running:
        calls.update(id) { $0.isOverdue = true }
        return []
      }
    case .retry(let id):
      guard let call = calls[id], call.isWaiting else { return [] }
      // What was known of them may be old.
      calls.update(id) { $0.isInsistent = true }
      queueAgain(call.place)
      return grant()
    case .patience(let id):
      guard calls[id] != nil else { return [] }
      calls.update(id) {
        $0.keepsOthersBack = false
        $0.overtaken = 0
      }
      return grant()
    case .join:
      joined = nil
      return grant()
    }
  }

  /// Gives a request that is queued its time to get its locks, from now on.
  private mutating func waitForLocks(_ id: RequestID) -> [Action] {
    guard let call = calls[id] else { return [] }
    let count = commitCount(of: call)
    calls.update(call.place) { $0.commitsSeen = count }
    return [.startTimer(.locks(id))]
  }

  private func commitCount(of call: Call) -> UInt64 {
    call.request.participants.reduce(0) { $0 + commitCounts[$1, default: 0] }
  }

  private func lockedParticipants(of call: Call) -> [String] {
    let locked = call.request.participants.filter { locks[$0] != nil }
    // Kept back by another request, which is about to lock them.
    return (locked.isEmpty ? call.request.participants : locked).sorted()
  }

  /// An attempt has failed: answers the caller, or waits for another chance.
  mutating func fail(_ id: RequestID, _ reply: SynchronizedReply) -> [Action] {
    guard let call = calls[id] else { return [] }
    switch call.request.mode {
    case .await where !call.isOverdue:
      calls.update(call.place) {
        $0.failure = reply
        $0.phase = .sleeping(Self.obstacles(reply, of: call.request))
      }
      queue.removeAll { $0 == call.place }
      return [.startTimer(.retry(id))]
    case .try, .await, .broadcast:
      return finish(id, .atomic(reply))
    }
  }

  /// Does without an attempt that is known to fail; waits for another chance.
  mutating func putOff(_ call: Call, because refusals: [KnownRefusal]) -> [Action] {
    calls.update(call.place) { $0.phase = .deferred(refusals) }
    queue.removeAll { $0 == call.place }
    return [.startTimer(.retry(call.id))]
  }

  /// Whose change may let the event be taken.
  private static func obstacles(
    _ reply: SynchronizedReply, of request: TransactionRequest
  ) -> Set<String> {
    switch reply {
    case .refused(let withheld): Set(withheld.map(\.participant))
    case .busy(let participants): Set(participants)
    case .unavailable(let participant): [participant]
    case .committed, .unknown: Set(request.participants)
    }
  }

  /// Answers a caller, once and for all.
  mutating func finish(_ id: RequestID, _ reply: TransactionReply) -> [Action] {
    guard let call = calls.remove(id) else { return [] }
    queue.removeAll { $0 == call.place }
    var actions: [Action] = []
    if case .await(let limit?) = call.request.mode {
      actions.append(.cancelTimer(.deadline(id, limit)))
    }
    switch call.phase {
    case .running(let transaction): resultTransactions[id] = transaction
    case .sleeping, .deferred: actions.append(.cancelTimer(.retry(id)))
    case .queued: actions.append(.cancelTimer(.locks(id)))
    }
    if call.keepsOthersBack { actions.append(.cancelTimer(.patience(id))) }
    return actions + remember(reply, of: id) + [.reply(id, reply)]
  }

  /// Keeps an answer, and forgets the oldest where there are too many.
  private mutating func remember(_ reply: TransactionReply, of id: RequestID) -> [Action] {
    results[id] = reply
    resultOrder.append(id)
    var actions: [Action] = []
    // A few are looked at each time, so that many that are needed do not hold up all others.
    for _ in 0..<Self.lookedAt where resultOrder.count > resultCapacity {
      guard let oldest = resultOrder.popFirst() else { break }
      if isNeeded(oldest) {
        resultOrder.append(oldest)
        continue
      }
      let isCommitted =
        if case .atomic(.committed) = results[oldest] { true } else { false }
      results[oldest] = nil
      guard let transaction = resultTransactions.removeValue(forKey: oldest) else { continue }
      callers[transaction] = nil
      forgottenThrough = max(forgottenThrough, transaction)
      if isCommitted { actions.append(.forget(transaction)) }
    }
    return actions
  }
}
