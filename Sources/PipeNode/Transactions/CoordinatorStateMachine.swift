import PipeMachines
import PipeWire

/// The coordinator of one conflict class of composites: a pure state machine.
///
/// The shell owns the journal and the connections to callers and participants. It
///
/// - makes this value of what the journal tells, and performs what ``start()`` returns;
/// - calls ``request(_:_:)`` and ``ask(_:for:)`` for what comes from callers, ``received(_:from:)``
///   for what comes from participants, ``connected(_:)`` and ``disconnected(_:)`` for each
///   participant's connection, and ``fired(_:)`` for timers;
/// - performs the actions in their order, and calls ``recorded(_:)`` when a record is durable. It may
///   make several records durable at once.
///
/// A connection brings messages in order and each once; what it had under way when it broke is lost.
/// Whatever else a connection does, nothing is taken by some and not by others. A caller that has
/// lost its connection sends its request again under the same number: it then gets the one answer
/// that there is. A replacement of a coordinator is not started before the old
/// one is dead.
package struct CoordinatorStateMachine: Sendable {
  /// What the shell has to do.
  package enum Action: Hashable, Sendable {
    /// Makes the record durable, then calls ``CoordinatorStateMachine/recorded(_:)``.
    case record(CoordinatorRecord)
    /// All participants have the commit of this record: it is kept for callers only. To be noted in
    /// the journal some time; if that is lost, participants are told once more.
    case acknowledged(TransactionID)
    /// The record is of no use any more. To be removed from the journal some time, which then keeps
    /// the highest number removed.
    case forget(TransactionID)
    /// Sends, if the participant is connected.
    case send(CoordinatorMessage, to: String)
    /// Clients are forgotten, with their requests up to this number. To be noted in the journal together with the
    /// commits that are forgotten.
    case forgetRequests(through: UInt64)
    /// Answers a caller, if it is there.
    case reply(RequestID, TransactionReply)
    /// Tells a client that its request is not tried, since it may have been before: higher numbers are new.
    case replyForgotten(RequestID, through: UInt64)
    /// Shows the composite state that a transaction has led to: these have moved, all at once.
    case publish(TransactionID, [String: ParticipantMove])
    /// Calls ``CoordinatorStateMachine/fired(_:)`` after the time that the timer is for, once.
    case startTimer(Timer)
    case cancelTimer(Timer)
    /// Tells of what no sound journal leads to.
    case report(CoordinatorProblem)
    /// Ends, and never goes on with this journal: it lacks what a participant has recorded.
    case refuse(JournalMismatch)
  }

  /// The name by which callers are told that the coordinator itself does not answer for a request.
  package let name: String
  /// The last transaction that was given.
  var last: TransactionID
  var phase = Phase.starting
  /// Requests that are not answered, and the locks.
  var requests: RequestQueue
  var participants = KnownParticipants()
  var answers: CallerAnswers
  var transactions: [TransactionID: TransactionStateMachine] = [:]
  /// The commits that each participant has part in and not all have acknowledged, in their order.
  var committing: [String: [TransactionID]] = [:]
  /// By what participants tell whether the journal is the one that this coordinator had.
  var identity: JournalIdentity
  var joining: JoiningParticipants
  /// Of each node that tells its steps, the last transaction that it has told of, or will not any more.
  private var told: [String: TransactionID] = [:]

  enum Phase {
    /// The record of the start is not durable yet: nothing begins.
    case starting
    case running
    case ended
  }

  /// A coordinator as its journal tells.
  /// - Parameters:
  ///   - resultCapacity: How many answers are kept that their callers have acknowledged; of clients that have not,
  ///     four times as many. Unit: answers.
  ///   - overtakingLimit: How often others may get the event that a request waits for, before it
  ///     keeps them back.
  package init(
    name: String, journal: CoordinatorJournal = CoordinatorJournal(), resultCapacity: Int = 4096,
    overtakingLimit: Int = 2
  ) {
    self.name = name
    last = TransactionID(epoch: journal.epoch + 1, sequence: 0)
    requests = RequestQueue(overtakingLimit: overtakingLimit)
    answers = CallerAnswers(journal, capacity: resultCapacity)
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

  // MARK: What is under way

  /// Which start this is; a new one begins where participants have heard of higher numbers.
  package var epoch: UInt64 { last.epoch }

  package var connectedParticipants: Set<String> { participants.connected }

  /// Which transaction each participant is locked by, from the request's turn until it is decided.
  package var locks: [String: TransactionID] { requests.locks }

  /// Whether nothing is under way: no locks, no requests.
  package var isIdle: Bool { requests.isEmpty && transactions.isEmpty }

  /// Whether a participant may not have taken yet what was committed.
  package func isCommitting(_ participant: String) -> Bool { committing[participant] != nil }

  /// How long participants may take to evaluate what a timer waits for.
  package func evaluationLimit(of timer: Timer) -> Duration {
    guard case .votes(let transaction) = timer, let caller = answers.caller(of: transaction)
    else { return .zero }
    return requests[caller]?.request.evaluationLimit ?? .zero
  }

  /// A node tells its steps, and has told of its transactions up to this one, or tells nothing of them any
  /// more. Commits after that in which it has part are not forgotten.
  package mutating func stepsTold(by node: String, through transaction: TransactionID) {
    told[node] = max(told[node] ?? .zero, transaction)
  }

  /// The event that a request asks for, while it is not answered.
  package func event(of request: RequestID) -> String? { requests[request]?.request.event }

  /// The transactions that are not decided: no other one may have their participants.
  package var undecided: [TransactionStateMachine] {
    Set(locks.values).sorted().compactMap { transactions[$0] }
  }

  /// The transactions under way, with those whose commit not all have acknowledged.
  package var transactionsUnderWay: [TransactionStateMachine] {
    transactions.values.sorted { $0.id < $1.id }
  }

  // MARK: Callers

  /// The coordinator has started; its journal has been read.
  package mutating func start() -> [Action] {
    let resends = transactions.keys.sorted().map { Action.startTimer(.resend($0)) }
    return [.record(.start(epoch: epoch)), .startTimer(.join)] + resends
  }

  /// The coordinator is to end: aborts what is not decided, and takes nothing any more.
  package mutating func stop() -> [Action] {
    phase = .ended
    // Of what callers have asked again, this journal may not know that it was committed.
    guard !identity.isRefused else { return [] }
    var actions: [Action] = []
    for call in requests.all {
      if call.isRunning {
        requests.setOverdue(call.id)
      } else {
        actions += finish(call.id, .atomic(.unavailable(name)))
      }
    }
    for transaction in transactions.keys.sorted() { actions += take(.votesOverdue, transaction) }
    return actions
  }

  /// A caller asks for an event, or asks once more.
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
    actions += grant()
    guard requests[id]?.isQueued == true else { return actions }
    switch request.mode {
    case .try, .broadcast: actions += startLockTimer(id)
    case .await: break
    }
    return actions
  }

  /// A caller waits no longer for its request, if nothing is under way for it.
  package mutating func withdraw(_ id: RequestID) -> [Action] {
    guard let call = requests[id] else { return [] }
    guard call.isRunning else { return finish(id, .atomic(.unavailable(name))) + grant() }
    requests.setOverdue(id)
    return []
  }

  /// A caller waits for no answer to a request before this one, and never sends it again.
  package mutating func acknowledge(_ caller: String, before oldest: UInt64) {
    answers.acknowledge(caller, before: oldest)
  }

  /// A caller that was told that none has moved is to ask anew under the same number.
  package mutating func renew(_ id: RequestID) { answers.renew(id) }

  /// A caller asks, by a request of its own, what has become of a transaction.
  package func ask(_ id: RequestID, for transaction: TransactionID) -> [Action] {
    if let answer = answers.caller(of: transaction).flatMap({ answers[$0] }) {
      return [.reply(id, answer)]
    }
    let isUndecided = transactions[transaction] != nil
    // A number that was not given yet, or that was forgotten: nothing can be said of it.
    let isKnown = transaction > answers.forgottenThrough && transaction <= last
    let reply: SynchronizedReply =
      isUndecided || !isKnown ? .unknown(transaction) : .unavailable(name)
    return [.reply(id, .atomic(reply))]
  }

  // MARK: Turns

  /// Begins every request that can.
  mutating func grant() -> [Action] {
    guard phase == .running else { return [] }
    let turns = requests.takeTurns(after: &last, asking: participants)
    return turns.reduce(into: []) { $0 += take($1) }
  }

  /// Lets requests have their turn again that wait for one of these to change.
  mutating func wake(_ names: [String]) -> [Action] {
    requests.wake(names, asking: participants).map { .cancelTimer(.retry($0)) }
  }

  mutating func take(_ turn: RequestQueue.Turn) -> [Action] {
    switch turn {
    case .begins(let call, let transaction): begin(call, as: transaction)
    case .waits(let id): [.startTimer(.retry(id))]
    case .fails(let call, let reply): finish(call, .atomic(reply))
    }
  }

  private mutating func begin(_ call: RequestQueue.Call, as id: TransactionID) -> [Action] {
    let asked = call.request.participants.sorted()
    answers.began(id, for: call.id)
    var actions: [Action] = [.cancelTimer(.locks(call.id)), .startTimer(.votes(id))]
    let body = call.request.body
    switch call.request.mode {
    case .try, .await:
      transactions[id] = .atomic(id, asked)
      let waits = call.request.mode != .try
      actions += asked.map { participant in
        let emitter = call.request.emitter
        let emitted = emitter?.participant == participant ? emitter?.number : nil
        return .send(
          .prepare(id, event: body, wantsChange: waits, emitted: emitted), to: participant)
      }
    case .broadcast:
      let missing = asked.filter { !connectedParticipants.contains($0) }
      transactions[id] = .broadcast(id, asked, unavailable: missing)
      actions += asked.filter { !missing.contains($0) }.map {
        .send(.deliver(id, event: body), to: $0)
      }
      if missing.count == asked.count { actions += take(.votesOverdue, id) }
    }
    return actions
  }

  // MARK: Answers

  /// Answers a caller, once and for all.
  mutating func finish(_ id: RequestID, _ reply: TransactionReply) -> [Action] {
    requests.remove(id).map { finish($0, reply) } ?? []
  }

  private mutating func finish(
    _ call: RequestQueue.Call, _ reply: TransactionReply
  ) -> [Action] {
    var actions: [Action] = []
    var tried: TransactionID?
    if case .await(let limit?) = call.request.mode {
      actions.append(.cancelTimer(.deadline(call.id, limit)))
    }
    switch call.phase {
    case .running(let transaction): tried = transaction
    case .sleeping, .deferred: actions.append(.cancelTimer(.retry(call.id)))
    case .queued: actions.append(.cancelTimer(.locks(call.id)))
    }
    if call.keepsOthersBack { actions.append(.cancelTimer(.patience(call.id))) }
    let forgotten = answers.keep(reply, of: call.id, by: tried, told: told) {
      [transactions] in transactions[$0] != nil
    }
    actions += forgotten.transactions.map { .forget($0) }
    if let last = forgotten.requestsThrough { actions.append(.forgetRequests(through: last)) }
    return actions + [.reply(call.id, reply)]
  }
}

/// What a coordinator makes durable.
package enum CoordinatorRecord: Hashable, Sendable {
  /// A start, by its epoch.
  case start(epoch: UInt64)
  /// A commit: the point at which a transaction is decided.
  case commit(CommitRecord)
}

/// What contradicts the coordinator's journal.
package enum CoordinatorProblem: Hashable, Sendable {
  /// A participant is prepared for a transaction of which nothing is known any more. It is told that
  /// the transaction was aborted.
  case queryOfForgotten(TransactionID, from: String)

  /// The problem as the log tells it.
  package var warning: String {
    switch self {
    case .queryOfForgotten(let transaction, let participant):
      "participant '\(participant)' has promised to take synchronized event \(transaction), of "
        + "which nothing is known any more: the journal is not the one that this composite had, or "
        + "the composites were renamed. It is told that the event was given up. Where others have "
        + "taken it, their states do not agree now"
    }
  }
}
