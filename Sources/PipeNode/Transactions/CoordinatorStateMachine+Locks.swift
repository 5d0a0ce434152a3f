import PipeMachines

// Who may begin: all of a request's locks at once, first come first served.

extension CoordinatorStateMachine {
  /// Begins every request that can have all its locks and takes none from an earlier one.
  mutating func grant() -> [Action] {
    guard isStarted, !queue.isEmpty else { return [] }
    var actions: [Action] = []
    var reserved: Set<String> = []
    for place in queue {
      guard let call = calls[place], call.isQueued else { continue }
      let participants = call.request.participants
      if call.request.mode != .broadcast,
        let missing = participants.first(where: { !connectedParticipants.contains($0) })
      {
        // After a start, one that is tried once waits for those who are on their way.
        if call.request.mode == .try, joined?.contains(missing) == false { continue }
        actions += fail(call.id, .unavailable(missing))
        continue
      }
      let refusals = refusals(of: call)
      if !refusals.isEmpty {
        actions += putOff(call, because: refusals)
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
    calls.update(call.place) {
      $0.phase = .running(id)
      $0.isInsistent = false
    }
    queue.removeAll { $0 == call.place }
    var actions: [Action] = [.cancelTimer(.locks(call.id)), .startTimer(.votes(id))]
    let body = call.request.body
    switch call.request.mode {
    case .try, .await:
      transactions[id] = .atomic(id, participants)
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
  mutating func unlock(_ transaction: TransactionStateMachine) {
    for participant in transaction.participants where locks[participant] == transaction.id {
      locks[participant] = nil
    }
  }

  /// Who would refuse the event of a request that waits, as far as is known.
  private func refusals(of call: Call) -> [KnownRefusal] {
    // One that is tried once is told what they say now.
    guard case .await = call.request.mode, !call.isInsistent else { return [] }
    return refusals.refusals(of: call.request.question, by: call.request.participants)
  }

  /// Lets the requests try again that wait for one of these to change, unless somebody is known to
  /// refuse still.
  mutating func wake(_ participants: some Sequence<String>) -> [Action] {
    var woken: Set<UInt64> = []
    for participant in participants {
      for place in calls.needing(participant) {
        guard let call = calls[place], call.waits(for: participant) else { continue }
        let refusals = refusals(of: call)
        if refusals.isEmpty {
          woken.insert(place)
        } else {
          calls.update(place) { $0.phase = .deferred(refusals) }
        }
      }
    }
    return woken.sorted().compactMap { place in
      queueAgain(place)
      return calls[place].map { .cancelTimer(.retry($0.id)) }
    }
  }

  /// Puts a waiting request back into the queue, at the place that it came at.
  mutating func queueAgain(_ place: UInt64) {
    calls.update(place) { $0.phase = .queued }
    queue.insert(place, at: queue.firstIndex { $0 > place } ?? queue.endIndex)
  }
}

// An event that needs several participants at once could be kept waiting for ever by events that
// need fewer, or others. So a request that has often been overtaken keeps back later ones of the
// same event at a shared participant: for a while, since what it waits for may lie behind them.
extension CoordinatorStateMachine {
  private func isKeptBack(_ call: Call) -> Bool {
    calls.keepers > 0 && competitors(before: call).contains(where: \.keepsOthersBack)
  }

  /// Notes whom a request that was committed has overtaken.
  mutating func countOvertaken(by call: Call) -> [Action] {
    var actions: [Action] = []
    for other in competitors(before: call) where other.isWaiting {
      let keepsOthersBack = other.overtaken + 1 >= overtakingLimit
      calls.update(other.place) {
        $0.overtaken += 1
        $0.keepsOthersBack = $0.keepsOthersBack || keepsOthersBack
      }
      if keepsOthersBack, !other.keepsOthersBack {
        actions.append(.startTimer(.patience(other.id)))
      }
    }
    return actions
  }

  /// Earlier requests of the same event that share a participant with this one, in their order.
  private func competitors(before call: Call) -> [Call] {
    var places: [UInt64] = []
    for participant in call.request.participants {
      for place in calls.needing(participant) where place < call.place && !places.contains(place) {
        places.append(place)
      }
    }
    return places.sorted().compactMap { calls[$0] }.filter {
      $0.request.event == call.request.event
    }
  }
}
