import PipeMachines
import PipeWire

// Messages to and from participants.

extension CoordinatorStateMachine {
  /// Handles a new connection to a participant, whether its first connection or a reconnection.
  /// - Parameters:
  ///   - watermark: The highest transaction that the participant knows of.
  ///   - prepared: The transactions for which the participant is prepared. The coordinator first
  ///     sends their outcomes, so that the participant is free for the next request.
  package mutating func connected(
    _ participant: String, watermark: TransactionID = .zero, prepared: [TransactionID] = []
  ) -> [Action] {
    participants.connect(participant)
    var actions = beginEpoch(above: watermark)
    for transaction in prepared { actions += received(.query(transaction), from: participant) }
    for transaction in transactionsByID.keys.sorted() {
      guard let name = transactionsByID[transaction]?.participant(of: participant) else { continue }
      actions += take(.connected(name), transaction)
    }
    return actions + wake(requests.participants(of: participant)) + beginReadyRequests()
  }

  /// Begins a new epoch if a participant knows of a transaction that this coordinator has not
  /// issued yet. The participant ignores all transactions up to `watermark`.
  ///
  /// Such a transaction was issued by a coordinator with another name, or by an earlier process of
  /// this coordinator whose journal is lost.
  private mutating func beginEpoch(above watermark: TransactionID) -> [Action] {
    guard phase != .ended, watermark > lastTransaction, watermark.epoch < UInt64(Int64.max) else {
      return []
    }
    lastTransaction = TransactionID(epoch: watermark.epoch + 1, sequence: 0)
    phase = .starting
    answers.forget(through: watermark)
    return [.record(.start(epoch: epoch)), .forget(watermark)]
  }

  /// Handles the loss of a participant's connection. Messages in flight are lost, too.
  package mutating func disconnected(_ participant: String) -> [Action] {
    participants.disconnect(participant)
    joining.remove(participant)
    var actions: [Action] = []
    for transaction in transactionsByID.keys.sorted() {
      guard let name = transactionsByID[transaction]?.participant(of: participant) else { continue }
      actions += take(.disconnected(name), transaction)
    }
    return actions
  }

  /// Handles a message from a participant.
  /// - Parameter node: The name of the participant. If the participant is an instance, the name of
  ///   its node.
  package mutating func received(_ message: ParticipantMessage, from node: String) -> [Action] {
    guard !identity.isRefused else { return [] }
    let participant =
      message.transaction.flatMap { transactionsByID[$0]?.participant(of: node) } ?? node
    switch message {
    case .yes(let transaction, let move):
      let acknowledged = acknowledge(before: transaction, by: participant)
      guard transactionsByID[transaction] != nil else {
        return acknowledged + [.send(.abort(transaction), to: participant)]
      }
      return acknowledged + take(.yes(participant, move), transaction)
    case .query where joining.isWaiting(node): return []
    case .query(let transaction):
      // The transaction was aborted. If it had been committed, the coordinator would have restored
      // it from the journal.
      guard transactionsByID[transaction] != nil else {
        let isForgotten = transaction <= answers.forgottenThrough
        return [.send(.abort(transaction), to: participant)]
          + (isForgotten ? [.report(.queryOfForgotten(transaction, from: participant))] : [])
      }
      return take(.query(participant), transaction)
    case .evaluating(let transaction):
      // If the transaction is in progress, the participant will receive its outcome.
      return transactionsByID[transaction] == nil
        ? [.send(.abort(transaction), to: participant)] : []
    case .no(let transaction, .withdrawn):
      // The effect has withdrawn the event, so this request must not be tried again. If the effect
      // requests the event later, the coordinator makes a new attempt.
      guard let caller = answers.caller(of: transaction) else { return [] }
      let actions = take(.no(participant, .withdrawn), transaction) + withdraw(caller)
      allowRetry(caller)
      return actions
    case .no(let transaction, let refusal):
      if let pending = answers.caller(of: transaction).flatMap({ requests[$0] }) {
        participants.noteRefusal(by: participant, of: pending.request.decisiveBody, refusal)
      }
      return take(.no(participant, refusal), transaction)
    case .ack(let transaction):
      return take(.ack(participant), transaction)
    case .delivered(let transaction, let result):
      participants.noteStep(of: participant)
      return take(.delivered(participant, result), transaction)
    case .changed:
      participants.noteStep(of: participant)
      return wake([participant]) + beginReadyRequests()
    case .instanceChanged(let key):
      let instance = InstanceName(node: node, key: key).description
      participants.noteStep(of: instance)
      return wake([instance]) + beginReadyRequests()
    }
  }

  /// Acknowledges earlier commits on behalf of a participant that votes yes. A participant can vote
  /// only after it has recorded the steps of all earlier commits.
  private mutating func acknowledge(
    before transaction: TransactionID, by participant: String
  ) -> [Action] {
    guard let earlier = unacknowledgedCommitsByParticipant[participant] else { return [] }
    var actions: [Action] = []
    for commit in earlier where commit < transaction {
      // Keys that are equal as Swift strings can differ in their Unicode normalization, and then
      // belong to different instances.
      let isSame = transactionsByID[commit]?.participants.contains {
        $0.utf8.elementsEqual(participant.utf8)
      }
      if isSame == true { actions += take(.ack(participant), commit) }
    }
    return actions
  }

  /// Handles a report from a participant's feed: the participant has taken a step alone.
  package mutating func reported(_ participant: String, version: UInt64) -> [Action] {
    guard participants.reported(participant, version: version) else { return [] }
    return wake([participant]) + beginReadyRequests()
  }

  /// Returns the participants of a transaction that is in progress or committed; `nil` if the
  /// transaction is forgotten.
  package func participants(of transaction: TransactionID) -> [String]? {
    if let known = transactionsByID[transaction] { return known.participants }
    guard let caller = answers.caller(of: transaction),
      case .atomic(.committed(transaction, let versions)) = answers[caller]
    else { return nil }
    return versions.keys.sorted()
  }

  /// Returns the last transaction that earlier processes of a node may have applied, if the first
  /// step report of the node's present process arrives now.
  ///
  /// The present process may still apply a transaction that waits for the node's answer: the process
  /// joins before its first report arrives, but holds its answers back until the report is recorded.
  package func lastTransaction(beforeStartOf node: String) -> TransactionID {
    let awaited = transactionsByID.values.filter { $0.awaitsAnswer(of: node) }.map(\.id).min()
    guard let awaited else { return lastTransaction }
    let sequence = awaited.sequence - min(1, awaited.sequence)
    return TransactionID(epoch: awaited.epoch, sequence: sequence)
  }

  /// The connected participants and the undecided transactions, for display.
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

  /// Passes an input to a transaction, and performs the transaction's decision. Does nothing if
  /// there is no such transaction.
  mutating func take(
    _ input: TransactionStateMachine.Input, _ id: TransactionID, _ commit: CommitRecord? = nil
  ) -> [Action] {
    guard let decision = transactionsByID[id]?.take(input), let transaction = transactionsByID[id]
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
      transactionsByID[id] = nil
      for participant in transaction.participants {
        unacknowledgedCommitsByParticipant[participant]?.removeAll { $0 == id }
        if unacknowledgedCommitsByParticipant[participant]?.isEmpty == true {
          unacknowledgedCommitsByParticipant[participant] = nil
        }
      }
      return [.cancelTimer(.resend(id)), .acknowledged(id)]
    case .answer(let results):
      let changed = wake(transaction.participants)
      return [.cancelTimer(.votes(id))] + changed + end(transaction, .broadcast(results))
    }
  }

  /// Completes a commit whose record is durable. The locks can be released at once: a connection
  /// delivers the next PREPARE after this COMMIT, so the participant evaluates the next event in
  /// the state after the commit.
  private mutating func commit(
    _ commit: CommitRecord, _ transaction: TransactionStateMachine
  ) -> [Action] {
    var actions: [Action] = []
    for (participant, move) in commit.moves { participants.noteCommit(of: participant, move) }
    if let pending = requests[commit.request] {
      actions += finish(commit.request, commit.reply)
      actions += requests.countOvertaken(by: pending).map { .startTimer(.priorityTimeout($0)) }
    }
    actions += transaction.participants.map { .send(.commit(transaction.id), to: $0) }
    actions += [.publish(transaction.id, commit.moves), .startTimer(.resend(transaction.id))]
    for participant in transaction.participants {
      unacknowledgedCommitsByParticipant[participant, default: []].append(transaction.id)
    }
    requests.unlock(transaction.participants, of: transaction.id)
    forgetInstances(transaction.participants)
    return actions + wake(transaction.participants) + beginReadyRequests()
  }

  /// Removes a transaction that was not committed, releases its locks, and answers its requester.
  private mutating func end(
    _ transaction: TransactionStateMachine, _ reply: TransactionReply
  ) -> [Action] {
    transactionsByID[transaction.id] = nil
    defer { forgetInstances(transaction.participants) }
    requests.unlock(transaction.participants, of: transaction.id)
    var actions: [Action] = []
    if let caller = answers.removeTransaction(transaction.id) {
      switch reply {
      case .atomic(let reply): actions += requests.fail(caller, reply).map { take($0) } ?? []
      case .broadcast: actions += finish(caller, reply)
      }
    }
    return actions + beginReadyRequests()
  }
}

extension ParticipantMessage {
  /// The transaction that the message is about; `nil` if the message is not about a transaction.
  fileprivate var transaction: TransactionID? {
    switch self {
    case .yes(let transaction, _), .no(let transaction, _), .ack(let transaction),
      .query(let transaction), .evaluating(let transaction), .delivered(let transaction, _):
      transaction
    case .changed, .instanceChanged: nil
    }
  }
}
