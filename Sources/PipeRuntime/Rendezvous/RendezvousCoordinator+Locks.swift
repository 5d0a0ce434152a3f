// Who may begin: all of a request's locks at once, first come first served.

extension RendezvousCoordinator {
  /// Begins every request that can have all its locks and takes none from an earlier one.
  mutating func grant() -> [Action] {
    guard isStarted else { return [] }
    var actions: [Action] = []
    var reserved: Set<String> = []
    for id in queue {
      guard let call = calls[id], call.phase == .queued else { continue }
      let participants = call.request.participants
      if let missing = participants.first(where: { !connectedParticipants.contains($0) }),
        call.request.mode != .broadcast
      {
        // After a start, one that is tried once waits for those who are on their way.
        if call.request.mode == .try, joined?.contains(missing) == false { continue }
        actions += fail(id, .unavailable(missing))
        continue
      }
      // Those that are kept back reserve nothing: what they are kept back for may need it.
      if isKeptBack(call) { continue }
      if participants.allSatisfy({ locks[$0] == nil && !reserved.contains($0) }) {
        actions += begin(call)
      } else {
        reserved.formUnion(participants)
      }
    }
    return actions
  }

  private mutating func begin(_ call: Call) -> [Action] {
    sequence += 1
    let id = TransactionID(epoch: epoch, sequence: sequence)
    let participants = call.request.participants.sorted()
    for participant in participants { locks[participant] = id }
    callers[id] = call.id
    calls[call.id]?.phase = .running(id)
    queue.removeAll { $0 == call.id }
    var actions: [Action] = [.cancelTimer(.locks(call.id)), .startTimer(.votes(id))]
    let body = call.request.body
    switch call.request.mode {
    case .try, .await:
      transactions[id] = .rendezvous(id, participants)
      let waits = call.request.mode != .try
      actions += participants.map {
        .send(.prepare(id, event: body, wantsChange: waits), to: $0)
      }
    case .broadcast:
      let missing = participants.filter { !connectedParticipants.contains($0) }
      transactions[id] = .broadcast(id, participants, unavailable: missing)
      actions += participants.filter { !missing.contains($0) }.map {
        .send(.deliver(id, event: body), to: $0)
      }
      if missing.count == participants.count { actions += take(.votesOverdue, id) }
    }
    return actions
  }

  /// Frees the locks of a transaction.
  mutating func unlock(_ transaction: RendezvousTransaction) {
    for participant in transaction.participants where locks[participant] == transaction.id {
      locks[participant] = nil
    }
  }

  /// Lets the requests try again that wait for one of these to change.
  mutating func wake(_ participants: some Sequence<String>) -> [Action] {
    let changed = Set(participants)
    let woken = calls.values.filter { call in
      if case .sleeping(let obstacles) = call.phase {
        !obstacles.isDisjoint(with: changed)
      } else {
        false
      }
    }
    for call in woken { queueAgain(call.id) }
    let ids = woken.sorted { $0.order < $1.order }.map(\.id)
    return ids.map { .cancelTimer(.retry($0)) }
  }

  /// Puts a waiting request back into the queue, at the place that it came at.
  mutating func queueAgain(_ id: RequestID) {
    guard let order = calls[id]?.order else { return }
    calls[id]?.phase = .queued
    let place = queue.firstIndex { (calls[$0]?.order ?? 0) > order } ?? queue.endIndex
    queue.insert(id, at: place)
  }
}

// An event that needs several participants at once could be kept waiting for ever by events that
// need fewer, or others. So a request that has often been overtaken keeps back later ones of the
// same event at a shared participant: for a while, since what it waits for may lie behind them.
extension RendezvousCoordinator {
  private func isKeptBack(_ call: Call) -> Bool {
    calls.values.contains { other in
      other.keepsOthersBack && Self.competes(other, before: call)
    }
  }

  /// Notes whom a request that was committed has overtaken.
  mutating func countOvertaken(by call: Call) -> [Action] {
    var actions: [Action] = []
    for other in calls.values.sorted(by: { $0.order < $1.order }) {
      guard case .sleeping = other.phase, Self.competes(other, before: call) else { continue }
      calls[other.id]?.overtaken += 1
      guard other.overtaken + 1 >= overtakingLimit, !other.keepsOthersBack else { continue }
      calls[other.id]?.keepsOthersBack = true
      actions.append(.startTimer(.patience(other.id)))
    }
    return actions
  }

  private static func competes(_ other: Call, before call: Call) -> Bool {
    other.order < call.order && other.request.event == call.request.event
      && !Set(other.request.participants).isDisjoint(with: call.request.participants)
  }
}
