import PipeMachines
import PipeWire

// Messages from and to participants.

extension CoordinatorStateMachine {
  /// Handles a new connection to a participant, the first or a later one.
  /// - Parameters:
  ///   - watermark: The highest transaction that the participant knows of.
  ///   - prepared: The transaction that the participant is prepared for. Its outcome is sent first,
  ///     so that the participant is not busy with it at the next request.
  package mutating func connected(
    _ participant: String, watermark: TransactionID = .zero, prepared: TransactionID? = nil
  ) -> [Action] {
    participants.connect(participant)
    var actions = beginEpoch(above: watermark)
    if let prepared { actions += received(.query(prepared), from: participant) }
    for transaction in transactions.keys.sorted() {
      actions += take(.connected(participant), transaction)
    }
    return actions + wake([participant]) + beginReadyRequests()
  }

  /// Begins a new epoch if a participant knows of a number that this coordinator has not issued
  /// yet. The participant would ignore all numbers up to that.
  ///
  /// Such a number was issued by a coordinator of another name, or by one whose journal is lost.
  private mutating func beginEpoch(above watermark: TransactionID) -> [Action] {
    guard phase != .ended, watermark > last, watermark.epoch < UInt64(Int64.max) else { return [] }
    last = TransactionID(epoch: watermark.epoch + 1, sequence: 0)
    phase = .starting
    answers.forget(through: watermark)
    return [.record(.start(epoch: epoch)), .forget(watermark)]
  }

  /// Handles the loss of a participant's connection, with all messages in flight.
  package mutating func disconnected(_ participant: String) -> [Action] {
    participants.disconnect(participant)
    joining.remove(participant)
    var actions: [Action] = []
    for transaction in transactions.keys.sorted() {
      actions += take(.disconnected(participant), transaction)
    }
    return actions
  }

  /// Handles a message of a participant.
  package mutating func received(
    _ message: ParticipantMessage, from participant: String
  ) -> [Action] {
    guard !identity.isRefused else { return [] }
    switch message {
    case .yes(let transaction, let move):
      let acknowledged = acknowledge(before: transaction, by: participant)
      guard transactions[transaction] != nil else {
        return acknowledged + [.send(.abort(transaction), to: participant)]
      }
      return acknowledged + take(.yes(participant, move), transaction)
    case .query where joining.isWaiting(participant): return []
    case .query(let transaction):
      // Without a record, the transaction was aborted: a record would have restored it.
      guard transactions[transaction] != nil else {
        let isForgotten = transaction <= answers.forgottenThrough
        return [.send(.abort(transaction), to: participant)]
          + (isForgotten ? [.report(.queryOfForgotten(transaction, from: participant))] : [])
      }
      return take(.query(participant), transaction)
    case .evaluating(let transaction):
      // Otherwise the transaction is in progress, and its answer is awaited.
      return transactions[transaction] == nil ? [.send(.abort(transaction), to: participant)] : []
    case .no(let transaction, .withdrawn):
      // The event will not be requested again, or only as a new request.
      guard let caller = answers.caller(of: transaction) else { return [] }
      let actions = take(.no(participant, .withdrawn), transaction) + withdraw(caller)
      allowRetry(caller)
      return actions
    case .no(let transaction, let refusal):
      if let pending = answers.caller(of: transaction).flatMap({ requests[$0] }) {
        participants.refused(participant, pending.request.question, refusal)
      }
      return take(.no(participant, refusal), transaction)
    case .ack(let transaction):
      return take(.ack(participant), transaction)
    case .delivered(let transaction, let result):
      participants.changed(participant)
      return take(.delivered(participant, result), transaction)
    case .changed:
      participants.changed(participant)
      return wake([participant]) + beginReadyRequests()
    }
  }

  /// Acknowledges earlier commits. A participant that votes yes was free, so it has recorded the
  /// steps of all commits before.
  private mutating func acknowledge(
    before transaction: TransactionID, by participant: String
  ) -> [Action] {
    guard let earlier = committing[participant] else { return [] }
    var actions: [Action] = []
    for commit in earlier where commit < transaction { actions += take(.ack(participant), commit) }
    return actions
  }

  /// Handles a step that a participant has taken by itself, as its feed reports.
  package mutating func reported(_ participant: String, version: UInt64) -> [Action] {
    guard participants.reported(participant, version: version) else { return [] }
    return wake([participant]) + beginReadyRequests()
  }

  /// Returns the participants of a transaction that is in progress or committed; `nil` if it is
  /// forgotten.
  package func participants(of transaction: TransactionID) -> [String]? {
    if let known = transactions[transaction] { return known.participants }
    guard let caller = answers.caller(of: transaction),
      case .atomic(.committed(transaction, let versions)) = answers[caller]
    else { return nil }
    return versions.keys.sorted()
  }

  /// The participants that the coordinator can ask, and the transactions in progress.
  package var explanation: CoordinatorExplanation {
    CoordinatorExplanation(
      connected: connectedParticipants.sorted(),
      transactions: undecided.map {
        CoordinatorExplanation.Transaction(transaction: $0.id, participants: $0.participants)
      })
  }

  /// Handles a record that has become durable.
  package mutating func recorded(_ record: CoordinatorRecord) -> [Action] {
    switch record {
    case .start(let epoch):
      guard epoch == self.epoch, phase != .ended else { return [] }
      phase = .running
      return beginReadyRequests()
    case .commit(let commit):
      return take(.recorded, commit.transaction, commit)
    }
  }

  /// Passes an input to a transaction, if it exists, and carries out the decision.
  mutating func take(
    _ input: TransactionStateMachine.Input, _ id: TransactionID, _ commit: CommitRecord? = nil
  ) -> [Action] {
    guard let decision = transactions[id]?.take(input), let transaction = transactions[id]
    else { return [] }
    switch decision {
    case .nothing: return []
    case .recordCommit(let moves):
      guard let caller = answers.caller(of: id) else { return [] }
      let record = CommitRecord(transaction: id, request: caller, moves: moves)
      return [.cancelTimer(.votes(id)), .record(.commit(record))]
    case .commit:
      guard let commit else { return [] }
      return self.commit(commit, transaction)
    case .resend(let participants):
      return participants.map { .send(.commit(id), to: $0) }
    case .abort(let reply, let participants):
      let aborts = participants.map { Action.send(.abort(id), to: $0) }
      return [.cancelTimer(.votes(id))] + aborts + end(transaction, .atomic(reply))
    case .finish:
      transactions[id] = nil
      for participant in transaction.participants {
        committing[participant]?.removeAll { $0 == id }
        if committing[participant]?.isEmpty == true { committing[participant] = nil }
      }
      return [.cancelTimer(.resend(id)), .acknowledged(id)]
    case .answer(let results):
      let changed = wake(transaction.participants)
      return [.cancelTimer(.votes(id))] + changed + end(transaction, .broadcast(results))
    }
  }

  /// Completes a commit whose record is durable. The locks are released at once: a connection
  /// delivers the next PREPARE after this COMMIT, so that a participant evaluates it in the state
  /// after the commit.
  private mutating func commit(
    _ commit: CommitRecord, _ transaction: TransactionStateMachine
  ) -> [Action] {
    var actions: [Action] = []
    for (participant, move) in commit.moves { participants.moved(participant, move) }
    if let pending = requests[commit.request] {
      actions += finish(commit.request, commit.reply)
      actions += requests.countOvertaken(by: pending).map { .startTimer(.priorityTimeout($0)) }
    }
    actions += transaction.participants.map { .send(.commit(transaction.id), to: $0) }
    actions += [.publish(transaction.id, commit.moves), .startTimer(.resend(transaction.id))]
    for participant in transaction.participants {
      committing[participant, default: []].append(transaction.id)
    }
    requests.unlock(transaction.participants, of: transaction.id)
    return actions + wake(transaction.participants) + beginReadyRequests()
  }

  /// Removes a transaction that is not committed, with its locks, and answers its caller.
  private mutating func end(
    _ transaction: TransactionStateMachine, _ reply: TransactionReply
  ) -> [Action] {
    transactions[transaction.id] = nil
    requests.unlock(transaction.participants, of: transaction.id)
    var actions: [Action] = []
    if let caller = answers.ended(transaction.id) {
      switch reply {
      case .atomic(let reply): actions += requests.fail(caller, reply).map { take($0) } ?? []
      case .broadcast: actions += finish(caller, reply)
      }
    }
    return actions + beginReadyRequests()
  }
}
