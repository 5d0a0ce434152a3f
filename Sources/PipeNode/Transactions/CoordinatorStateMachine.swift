import PipeMachines
import PipeWire

/// The coordinator of one conflict class of composites: a pure state machine.
///
/// The shell owns the journal and the connections to callers and participants. It
///
/// - creates this value from the journal's contents, and performs the actions of ``start()``;
/// - calls ``request(_:_:)`` and ``ask(_:for:)`` for messages from callers, ``received(_:from:)``
///   for messages from participants, ``connected(_:)`` and ``disconnected(_:)`` for each
///   participant's connection, and ``fired(_:)`` for timers;
/// - performs the actions in their order, and calls ``recorded(_:)`` when a record is durable. It
///   may make several records durable at once.
///
/// A connection delivers messages in order, each once. When it breaks, messages in flight are lost.
/// Whatever else a connection does, no event is taken by some participants and not by others.
///
/// A caller that has lost its connection repeats its request under the same number, and then gets
/// the one answer that there is. A replacement of a coordinator must not start before the old
/// process is dead.
package struct CoordinatorStateMachine: Sendable {
  /// An action that the shell must perform.
  package enum Action: Hashable, Sendable {
    /// Makes the record durable, then calls ``CoordinatorStateMachine/recorded(_:)``.
    case record(CoordinatorRecord)
    /// Notes in the journal, at any time, that all participants have the commit: its record is kept
    /// for callers only. If the note is lost, the participants receive the commit again.
    case acknowledged(TransactionID)
    /// Removes the record from the journal, at any time: it is no longer needed. The journal then
    /// keeps the highest number removed.
    case forget(TransactionID)
    /// Sends the message, if the participant is connected.
    case send(CoordinatorMessage, to: String)
    /// Notes in the journal, together with the forgotten commits, that clients are forgotten with
    /// their requests up to this number.
    case forgetRequests(through: UInt64)
    /// Answers a caller, if it is connected.
    case reply(RequestID, TransactionReply)
    /// Answers a client that its request is not tried, since it may have been tried before. Higher
    /// numbers are new.
    case replyForgotten(RequestID, through: UInt64)
    /// Shows the composite state that a transaction has led to: these participants have moved, all
    /// at once.
    case publish(TransactionID, [String: ParticipantMove])
    /// Calls ``CoordinatorStateMachine/fired(_:)`` once, after the time of the timer.
    case startTimer(Timer)
    case cancelTimer(Timer)
    /// Logs a contradiction that does not occur with a sound journal.
    case report(CoordinatorJournalConflict)
    /// Ends, and never continues with this journal: it lacks what a participant has recorded.
    case refuse(JournalMismatch)
  }

  /// The name that callers receive when the coordinator itself is unavailable for a request.
  package let name: String
  /// The last transaction that was issued.
  var last: TransactionID
  var phase = Phase.starting
  /// The unanswered requests, and the locks.
  var requests: RequestQueue
  var participants = ParticipantRegistry()
  var answers: RequesterAnswers
  var transactions: [TransactionID: TransactionStateMachine] = [:]
  /// The commits of each participant that not all participants have acknowledged, in their order.
  var committing: [String: [TransactionID]] = [:]
  /// Shows, by the reports of participants, whether the journal is the one that this coordinator
  /// had.
  var identity: JournalIdentity
  var joining: JoiningParticipants
  /// The last transaction that each node with step reports has reported, or will no longer report.
  private var reported: [String: TransactionID] = [:]

  enum Phase {
    /// The record of the start is not durable yet: no transaction begins.
    case starting
    case running
    case ended
  }

  /// Creates a coordinator from its journal.
  /// - Parameters:
  ///   - resultCapacity: The number of acknowledged answers to keep. Unacknowledged answers may
  ///     take four times that. Unit: answers.
  ///   - overtakingLimit: How often others may get the event that a request waits for, before the
  ///     request keeps them back.
  package init(
    name: String, journal: CoordinatorJournal = CoordinatorJournal(), resultCapacity: Int = 4096,
    overtakingLimit: Int = 2
  ) {
    self.name = name
    last = TransactionID(epoch: journal.epoch + 1, sequence: 0)
    requests = RequestQueue(overtakingLimit: overtakingLimit)
    answers = RequesterAnswers(journal, capacity: resultCapacity)
    identity = JournalIdentity(journal)
    joining = JoiningParticipants(after: last)
    for commit in journal.commits where !journal.acknowledged.contains(commit.transaction) {
      let participants = commit.moves.keys.sorted()
      transactions[commit.transaction] = .recovered(commit.transaction, participants)
      for participant in participants {
        committing[participant, default: []].append(commit.transaction)
      }
    }
  }

  // MARK: Transactions in progress

  /// The number of this start. A new epoch begins if participants know of higher numbers.
  package var epoch: UInt64 { last.epoch }

  package var connectedParticipants: Set<String> { participants.connected }

  /// The transaction that locks each participant, from the request's turn until the decision.
  package var locks: [String: TransactionID] { requests.locks }

  /// Whether nothing is in progress: no locks, no requests.
  package var isIdle: Bool { requests.isEmpty && transactions.isEmpty }

  /// Whether a participant may not have taken a commit yet.
  package func isCommitting(_ participant: String) -> Bool { committing[participant] != nil }

  /// Returns how long participants may take to evaluate the event that a timer waits for.
  package func evaluationLimit(of timer: Timer) -> Duration {
    guard case .votes(let transaction) = timer, let caller = answers.caller(of: transaction)
    else { return .zero }
    return requests[caller]?.request.evaluationLimit ?? .zero
  }

  /// Notes that a node with step reports has reported its transactions up to this one, or will no
  /// longer report them. Later commits that involve the node are not forgotten.
  package mutating func noteStepReports(by node: String, through transaction: TransactionID) {
    reported[node] = max(reported[node] ?? .zero, transaction)
  }

  /// Returns the event that an unanswered request asks for.
  package func event(of request: RequestID) -> String? { requests[request]?.request.event }

  /// The undecided transactions. Their participants are not available to other transactions.
  package var undecided: [TransactionStateMachine] {
    Set(locks.values).sorted().compactMap { transactions[$0] }
  }

  /// The transactions in progress, including commits that not all participants have acknowledged.
  package var transactionsInProgress: [TransactionStateMachine] {
    transactions.values.sorted { $0.id < $1.id }
  }

  // MARK: Callers

  /// Starts the coordinator, after its journal has been read.
  package mutating func start() -> [Action] {
    let resends = transactions.keys.sorted().map { Action.startTimer(.resend($0)) }
    return [.record(.start(epoch: epoch)), .startTimer(.join)] + resends
  }

  /// Stops the coordinator: aborts undecided transactions, and accepts no more requests.
  package mutating func stop() -> [Action] {
    phase = .ended
    // This journal may not know that a repeated request was committed.
    guard !identity.isRefused else { return [] }
    var actions: [Action] = []
    for pending in requests.all {
      if pending.isRunning {
        requests.limitToCurrentAttempt(pending.id)
      } else {
        actions += finish(pending.id, .atomic(.unavailable(name)))
      }
    }
    for transaction in transactions.keys.sorted() { actions += take(.votesOverdue, transaction) }
    return actions
  }

  /// Handles a caller's request for an event, or its repetition.
  package mutating func request(_ id: RequestID, _ request: TransactionRequest) -> [Action] {
    if let answer = answers[id] { return [.reply(id, answer)] }
    guard requests[id] == nil else { return [] }
    if let last = answers.forgotten(id) { return [.replyForgotten(id, through: last)] }
    answers.heard(id.caller)
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

  /// Withdraws a request whose caller no longer waits, if no transaction is in progress for it.
  package mutating func withdraw(_ id: RequestID) -> [Action] {
    guard let pending = requests[id] else { return [] }
    guard pending.isRunning else {
      return finish(id, .atomic(.unavailable(name))) + beginReadyRequests()
    }
    requests.limitToCurrentAttempt(id)
    return []
  }

  /// Notes that a caller waits for no answer to a request before this one, and never repeats such a
  /// request.
  package mutating func acknowledge(_ caller: String, before oldest: UInt64) {
    answers.acknowledge(caller, before: oldest)
  }

  /// Allows a request to be tried again under the same number. Its caller was answered that no
  /// participant has moved.
  package mutating func allowRetry(_ id: RequestID) { answers.allowRetry(id) }

  /// Answers a query about the outcome of a transaction. The query is a request of its own.
  package func ask(_ id: RequestID, for transaction: TransactionID) -> [Action] {
    if let answer = answers.caller(of: transaction).flatMap({ answers[$0] }) {
      return [.reply(id, answer)]
    }
    let isUndecided = transactions[transaction] != nil
    // The outcome of a number that was not issued yet, or that is forgotten, is unknown.
    let isKnown = transaction > answers.forgottenThrough && transaction <= last
    let reply: SynchronizedReply =
      isUndecided || !isKnown ? .unknown(transaction) : .unavailable(name)
    return [.reply(id, .atomic(reply))]
  }

  // MARK: Turns

  /// Begins every request that can begin.
  mutating func beginReadyRequests() -> [Action] {
    guard phase == .running else { return [] }
    let turns = requests.takeTurns(after: &last, asking: participants)
    return turns.reduce(into: []) { $0 += take($1) }
  }

  /// Gives another turn to requests that wait for one of these participants to change.
  mutating func wake(_ names: [String]) -> [Action] {
    requests.wake(names, asking: participants).map { .cancelTimer(.retry($0)) }
  }

  mutating func take(_ turn: RequestQueue.Turn) -> [Action] {
    switch turn {
    case .begins(let pending, let transaction): begin(pending, as: transaction)
    case .waits(let id): [.startTimer(.retry(id))]
    case .fails(let pending, let reply): finish(pending, .atomic(reply))
    }
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
      transactions[id] = .atomic(id, askedParticipants)
      let waits = pending.request.mode != .try
      actions += askedParticipants.map { participant in
        let emitter = pending.request.emitter
        let emitted = emitter?.participant == participant ? emitter?.number : nil
        return .send(
          .prepare(id, event: body, wantsChange: waits, emitted: emitted), to: participant)
      }
    case .broadcast:
      let missing = askedParticipants.filter { !connectedParticipants.contains($0) }
      transactions[id] = .broadcast(id, askedParticipants, unavailable: missing)
      actions += askedParticipants.filter { !missing.contains($0) }.map {
        .send(.deliver(id, event: body), to: $0)
      }
      if missing.count == askedParticipants.count { actions += take(.votesOverdue, id) }
    }
    return actions
  }

  // MARK: Answers

  /// Gives a caller its final answer.
  mutating func finish(_ id: RequestID, _ reply: TransactionReply) -> [Action] {
    requests.remove(id).map { finish($0, reply) } ?? []
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
    let forgotten = answers.keep(reply, of: pending.id, by: tried, reported: reported) {
      [transactions] in transactions[$0] != nil
    }
    actions += forgotten.transactions.map { .forget($0) }
    if let last = forgotten.requestsThrough { actions.append(.forgetRequests(through: last)) }
    return actions + [.reply(pending.id, reply)]
  }
}

/// A record that a coordinator makes durable.
package enum CoordinatorRecord: Hashable, Sendable {
  /// A start, by its epoch.
  case start(epoch: UInt64)
  /// A commit: the point at which a transaction is decided.
  case commit(CommitRecord)
}

/// A message that contradicts the coordinator's journal.
package enum CoordinatorJournalConflict: Hashable, Sendable {
  /// A participant is prepared for a transaction that is completely forgotten. The coordinator
  /// answers that it was aborted.
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
