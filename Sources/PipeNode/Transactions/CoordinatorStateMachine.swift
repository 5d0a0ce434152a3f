import PipeMachines
import PipeWire

/// The coordinator of one conflict class of composites, as a pure state machine.
///
/// The owner of this value, ``CoordinatorContent``, has the journal and the connections to
/// requesters ("callers") and participants. The owner
///
/// - creates this value from the journal's contents, and performs the actions of ``start()``;
/// - calls ``request(_:_:)`` and ``ask(_:for:)`` for messages from callers, ``received(_:from:)``
///   for messages from participants, ``connected(_:)`` and ``disconnected(_:)`` for each
///   participant's connection, and ``fired(_:)`` for timers;
/// - performs the actions in their order, and calls ``recorded(_:)`` when a record is durable. It
///   may make several records durable at once.
///
/// A connection delivers each message once, and in order. When a connection breaks, messages in
/// flight are lost. Even then, an event is accepted by all participants or by none.
///
/// A caller that has lost its connection repeats its request under the same number, and gets the
/// same answer. A new process of a coordinator must not start before the old process is dead.
package struct CoordinatorStateMachine: Sendable {
  /// An action that the owner must perform. Actions must be performed in order.
  package enum Action: Hashable, Sendable {
    /// Make the record durable, and then call ``CoordinatorStateMachine/recorded(_:)``.
    case record(CoordinatorRecord)
    /// Note in the journal that all participants have acknowledged the commit. After that, the
    /// record of the commit serves only callers that repeat their requests. The note is not urgent:
    /// if it is lost, the participants receive the commit again.
    case acknowledged(TransactionID)
    /// Delete the record of a commit from the journal, because the record is no longer required.
    /// The deletion is not urgent. The journal keeps the highest transaction whose record was
    /// deleted.
    case forget(TransactionID)
    /// Send the message if the participant is connected.
    case send(CoordinatorMessage, to: String)
    /// Note in the journal that clients were forgotten, with their requests up to number `through`.
    /// The note is written together with the deletion of the forgotten commits.
    case forgetRequests(through: UInt64)
    /// Answer a caller, if the caller is connected.
    case reply(RequestID, TransactionReply)
    /// Notify a client that its request is not executed, because it may repeat an earlier request
    /// whose answer is forgotten. Requests with numbers above `through` are certainly new.
    case replyForgotten(RequestID, through: UInt64)
    /// Publish the states of the composites after a transaction. The participants in the dictionary
    /// have taken their steps at the same time.
    case publish(TransactionID, [String: ParticipantMove])
    /// Call ``CoordinatorStateMachine/fired(_:)`` once, after the timer's duration.
    case startTimer(Timer)
    case cancelTimer(Timer)
    /// Log a contradiction, which cannot occur while the journal is intact.
    case report(CoordinatorJournalConflict)
    /// End the node, and never continue with this journal, because it lacks records that a
    /// participant has.
    case refuse(JournalMismatch)
  }

  /// The name of the coordinator, which callers receive if the coordinator itself is unavailable.
  package let name: String
  /// The last transaction that was issued.
  var lastTransaction: TransactionID
  var phase = Phase.starting
  /// The unanswered requests, and the locks of participants.
  var requests: RequestQueue
  var participants = ParticipantRegistry()
  var answers: RequesterAnswers
  var transactionsByID: [TransactionID: TransactionStateMachine] = [:]
  /// The commits that some participants have not acknowledged yet, in order, by participant.
  var unacknowledgedCommitsByParticipant: [String: [TransactionID]] = [:]
  /// The identity of the journal. A comparison with the participants' data shows whether the
  /// journal was replaced or lacks records.
  var identity: JournalIdentity
  var joining: JoiningParticipants
  /// The transactions up to which the step reports of nodes are complete, by node.
  private var reportedThroughByNode: [String: TransactionID] = [:]

  enum Phase {
    /// The record of the start is not durable yet, so no transaction begins.
    case starting
    case running
    case ended
  }

  /// Creates a coordinator from the contents of its journal.
  /// - Parameters:
  ///   - resultCapacity: The number of acknowledged answers to keep. Up to four times as many
  ///     unacknowledged answers are kept. Unit: answers.
  ///   - overtakingLimit: The number of later requests that may overtake a waiting request for the
  ///     same event. After that, the waiting request blocks later requests.
  package init(
    name: String, journal: CoordinatorJournal = CoordinatorJournal(), resultCapacity: Int = 4096,
    overtakingLimit: Int = 2
  ) {
    self.name = name
    lastTransaction = TransactionID(epoch: journal.epoch + 1, sequence: 0)
    requests = RequestQueue(overtakingLimit: overtakingLimit)
    answers = RequesterAnswers(journal, capacity: resultCapacity)
    identity = JournalIdentity(journal)
    joining = JoiningParticipants(after: lastTransaction)
    for commit in journal.commits where !journal.acknowledged.contains(commit.transaction) {
      let participants = commit.moves.keys.sorted()
      transactionsByID[commit.transaction] = .recovered(commit.transaction, participants)
      for participant in participants {
        unacknowledgedCommitsByParticipant[participant, default: []].append(commit.transaction)
      }
    }
  }

  // MARK: Transactions in progress

  /// The number of this start of the coordinator. If participants know of transactions of a later
  /// epoch, the coordinator begins an even later epoch.
  package var epoch: UInt64 { lastTransaction.epoch }

  package var connectedParticipants: Set<String> { participants.connected }

  /// The transaction that locks each participant, from the request's turn until the decision, by
  /// participant.
  package var locks: [String: TransactionID] { requests.locksByParticipant }

  /// Whether the coordinator has no requests and no transactions.
  package var isIdle: Bool { requests.isEmpty && transactionsByID.isEmpty }

  /// Returns whether there is a commit that the participant may not have received yet.
  package func isCommitting(_ participant: String) -> Bool {
    unacknowledgedCommitsByParticipant[participant] != nil
  }

  /// Returns the time that participants may take to evaluate the event of a `votes` timer; zero for
  /// other timers.
  package func evaluationLimit(of timer: Timer) -> Duration {
    guard case .votes(let transaction) = timer, let caller = answers.caller(of: transaction)
    else { return .zero }
    return requests[caller]?.request.evaluationLimit ?? .zero
  }

  /// Notes that a node has reported all its transactions up to `transaction`, or will no longer
  /// report them. The records of its later commits must be kept.
  package mutating func noteStepReports(by node: String, through transaction: TransactionID) {
    reportedThroughByNode[node] = max(reportedThroughByNode[node] ?? .zero, transaction)
  }

  /// Returns the name of the event that an unanswered request asks for; `nil` if there is no such
  /// request.
  package func event(of request: RequestID) -> String? { requests[request]?.request.event }

  /// The undecided transactions. They lock their participants, so other transactions must wait.
  package var undecided: [TransactionStateMachine] {
    Set(locks.values).sorted().compactMap { transactionsByID[$0] }
  }

  /// The transactions in progress, including commits that not all participants have acknowledged.
  package var transactionsInProgress: [TransactionStateMachine] {
    transactionsByID.values.sorted { $0.id < $1.id }
  }

  // MARK: Requests of callers

  /// Starts the coordinator, after its journal has been read.
  package mutating func start() -> [Action] {
    let resends = transactionsByID.keys.sorted().map { Action.startTimer(.resend($0)) }
    return [.record(.start(epoch: epoch)), .startTimer(.join)] + resends
  }

  /// Stops the coordinator: aborts undecided transactions, and accepts no more requests.
  package mutating func stop() -> [Action] {
    phase = .ended
    // An answer could be wrong: the journal may lack the commit of a repeated request.
    guard !identity.isRefused else { return [] }
    var actions: [Action] = []
    for pending in requests.all {
      if pending.isRunning {
        requests.limitToCurrentAttempt(pending.id)
      } else {
        actions += finish(pending.id, .atomic(.unavailable(name)))
      }
    }
    for transaction in transactionsByID.keys.sorted() {
      actions += take(.votesOverdue, transaction)
    }
    return actions
  }

  /// Handles a caller's request for an event, whether new or repeated.
  package mutating func request(_ id: RequestID, _ request: TransactionRequest) -> [Action] {
    if let answer = answers[id] { return [.reply(id, answer)] }
    guard requests[id] == nil else { return [] }
    if let last = answers.forgotten(id) { return [.replyForgotten(id, through: last)] }
    answers.noteActivity(of: id.caller)
    requests.add(id, request)
    var actions: [Action] = []
    if case .await(let limit?) = request.mode {
      actions.append(.startTimer(.deadline(id, limit)))
    }
    actions += beginReadyRequests()
    guard requests[id]?.isQueued == true else { return actions }
    switch request.mode {
    case .try, .broadcast: actions += startLockTimer(id)
    case .await: break
    }
    return actions
  }

  /// Removes a request whose caller no longer waits for the answer. If a transaction for the
  /// request is in progress, only prevents further attempts.
  package mutating func withdraw(_ id: RequestID) -> [Action] {
    guard let pending = requests[id] else { return [] }
    guard pending.isRunning else {
      return finish(id, .atomic(.unavailable(name))) + beginReadyRequests()
    }
    requests.limitToCurrentAttempt(id)
    return []
  }

  /// Notes that a caller does not wait for answers to requests with numbers below `oldest`, and
  /// never repeats such requests.
  package mutating func acknowledge(_ caller: String, before oldest: UInt64) {
    answers.acknowledge(caller, before: oldest)
  }

  /// Allows another attempt at a request under the same number, after the answer that no
  /// participant has accepted the event.
  package mutating func allowRetry(_ id: RequestID) { answers.allowRetry(id) }

  /// Answers a query about the outcome of a transaction. The query has a request id of its own.
  package func ask(_ id: RequestID, for transaction: TransactionID) -> [Action] {
    if let answer = answers.caller(of: transaction).flatMap({ answers[$0] }) {
      return [.reply(id, answer)]
    }
    let isUndecided = transactionsByID[transaction] != nil
    // The outcome is unknown if the transaction is forgotten or was not issued yet.
    let isKnown = transaction > answers.forgottenThrough && transaction <= lastTransaction
    let reply: SynchronizedReply =
      isUndecided || !isKnown ? .unknown(transaction) : .unavailable(name)
    return [.reply(id, .atomic(reply))]
  }

  // MARK: Turns of requests

  /// Begins all requests that can begin.
  mutating func beginReadyRequests() -> [Action] {
    guard phase == .running else { return [] }
    let turns = requests.takeTurns(after: &lastTransaction, asking: participants)
    return turns.reduce(into: []) { $0 += take($1) }
  }

  /// Gives another turn to the requests that wait until one of these participants changes its
  /// state.
  mutating func wake(_ names: [String]) -> [Action] {
    requests.wake(names, asking: participants).map { .cancelTimer(.retry($0)) }
  }

  mutating func take(_ turn: RequestQueue.Turn) -> [Action] {
    switch turn {
    case .begins(let pending, let transaction): begin(pending, as: transaction)
    case .waits(let id): [.startTimer(.retry(id))]
    case .fails(let pending, let reply): fail(pending, reply)
    }
  }

  private mutating func fail(
    _ pending: RequestQueue.PendingRequest, _ reply: SynchronizedReply
  ) -> [Action] {
    forgetInstances(pending.request.participants)
    return finish(pending, .atomic(reply))
  }

  private mutating func begin(_ pending: RequestQueue.PendingRequest, as id: TransactionID)
    -> [Action]
  {
    let askedParticipants = pending.request.participants.sorted()
    answers.began(id, for: pending.id)
    var actions: [Action] = [.cancelTimer(.locks(pending.id)), .startTimer(.votes(id))]
    let body = pending.request.body
    switch pending.request.mode {
    case .try, .await:
      transactionsByID[id] = .atomic(id, askedParticipants)
      let waits = pending.request.mode != .try
      actions += askedParticipants.map { participant in
        let emitter = pending.request.emitter
        let emitted = emitter?.participant == participant ? emitter?.number : nil
        return .send(
          .prepare(id, event: body, wantsChange: waits, emitted: emitted), to: participant)
      }
    case .broadcast:
      let missing = askedParticipants.filter { !participants.isConnected($0) }
      transactionsByID[id] = .broadcast(id, askedParticipants, unavailable: missing)
      actions += askedParticipants.filter { !missing.contains($0) }.map {
        .send(.deliver(id, event: body), to: $0)
      }
      if missing.count == askedParticipants.count { actions += take(.votesOverdue, id) }
    }
    return actions
  }

  // MARK: Answers to callers

  /// Removes a request, and gives its caller the final answer.
  mutating func finish(_ id: RequestID, _ reply: TransactionReply) -> [Action] {
    guard let pending = requests.remove(id) else { return [] }
    forgetInstances(pending.request.participants)
    return finish(pending, reply)
  }

  /// Discards the knowledge about instances that no request asks for.
  mutating func forgetInstances(_ names: [String]) {
    for name in names where InstanceName.isInstance(name) && !requests.isRequested(name) {
      participants.forget(name)
    }
  }

  private mutating func finish(
    _ pending: RequestQueue.PendingRequest, _ reply: TransactionReply
  ) -> [Action] {
    var actions: [Action] = []
    var tried: TransactionID?
    if case .await(let limit?) = pending.request.mode {
      actions.append(.cancelTimer(.deadline(pending.id, limit)))
    }
    switch pending.phase {
    case .running(let transaction): tried = transaction
    case .sleeping, .deferred: actions.append(.cancelTimer(.retry(pending.id)))
    case .queued: actions.append(.cancelTimer(.locks(pending.id)))
    }
    if pending.hasPriority { actions.append(.cancelTimer(.priorityTimeout(pending.id))) }
    let forgotten = answers.keep(reply, of: pending.id, by: tried, reported: reportedThroughByNode)
    {
      [transactionsByID] in transactionsByID[$0] != nil
    }
    actions += forgotten.transactions.map { .forget($0) }
    if let last = forgotten.requestsThrough { actions.append(.forgetRequests(through: last)) }
    return actions + [.reply(pending.id, reply)]
  }
}

/// A record that a coordinator makes durable.
package enum CoordinatorRecord: Hashable, Sendable {
  /// A start of the coordinator, identified by its epoch.
  case start(epoch: UInt64)
  /// A commit. A transaction is committed as soon as this record is durable.
  case commit(CommitRecord)
}

/// A message that contradicts the coordinator's journal.
package enum CoordinatorJournalConflict: Hashable, Sendable {
  /// A participant is prepared for a transaction that is completely forgotten. The coordinator
  /// answers that the transaction was aborted.
  case queryOfForgotten(TransactionID, from: String)

  /// The log message.
  package var warning: String {
    switch self {
    case .queryOfForgotten(let transaction, let participant):
      "participant '\(participant)' has promised to take synchronized event \(transaction), which "
        + "is unknown: the journal of this composite was replaced, or the composites were "
        + "renamed; the coordinator answers that the event was aborted; if other participants "
        + "have taken the event, the states of the participants are now inconsistent"
    }
  }
}
