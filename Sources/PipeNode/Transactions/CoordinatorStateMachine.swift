import PipeMachines
import PipeSupport
import PipeWire

/// The coordinator of one conflict class of composites: a pure state machine.
///
/// The shell owns the journal and the connections to callers and participants. It
///
/// - makes this value of what the journal tells, and performs what ``start()`` returns;
/// - calls ``request(_:_:)``, ``ask(_:)`` and ``ask(_:for:)`` for what comes from callers,
///   ``received(_:from:)`` for what comes from participants, ``connected(_:)`` and
///   ``disconnected(_:)`` for each participant's connection, and ``fired(_:)`` for timers;
/// - performs the actions in their order, and calls ``recorded(_:)`` when a record is durable. It may
///   make several records durable at once.
///
/// A connection brings messages in order and each once; what it had under way when it broke is lost.
/// Whatever else a connection does, nothing is taken by some and not by others. A caller that has
/// lost its connection sends its request again under the same number, or asks for that number: it
/// then gets the one answer that there is. A replacement of a coordinator is not started before the old
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
    /// Answers a caller, if it is there.
    case reply(RequestID, TransactionReply)
    /// Shows the composite state that a transaction has led to: these have moved, all at once.
    case publish(TransactionID, [String: ParticipantMove])
    /// Calls ``CoordinatorStateMachine/fired(_:)`` after the time that the timer is for, once.
    case startTimer(Timer)
    case cancelTimer(Timer)
    /// Tells of what no sound journal leads to.
    case report(CoordinatorProblem)
  }

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

  /// The name by which callers are told that the coordinator itself does not answer for a request.
  package let name: String
  /// Which start this is; a new one begins where participants have heard of higher numbers.
  package internal(set) var epoch: UInt64
  var sequence: UInt64 = 0
  var isStarted = false
  var hasEnded = false

  /// Requests that are not answered.
  var calls = Calls()
  /// Those that wait for locks, by their places, in the order in which they came.
  var queue: [UInt64] = []
  /// What participants are known to refuse, so that they are not asked in vain.
  var refusals = KnownRefusals()

  var transactions: [TransactionID: TransactionStateMachine] = [:]
  var callers: [TransactionID: RequestID] = [:]
  /// Which transaction each participant is locked by, from the request's grant until it is decided.
  package internal(set) var locks: [String: TransactionID] = [:]
  /// How many commits each participant has had part in, of this process.
  var commitCounts: [String: UInt64] = [:]
  /// How many commits that each participant has part in not all have acknowledged.
  var committing: [String: Int] = [:]
  package internal(set) var connectedParticipants: Set<String> = []
  /// Those that were connected at any time, while the others may be about to be, after a start.
  var joined: Set<String>? = []

  // What callers are answered with who ask again.
  var results: [RequestID: TransactionReply] = [:]
  var resultOrder = Queue<RequestID>()
  var resultTransactions: [RequestID: TransactionID] = [:]
  var forgottenThrough: TransactionID
  /// Of each caller that has said so, the oldest request whose answer it waits for.
  var awaited: [String: UInt64] = [:]
  let resultCapacity: Int
  let overtakingLimit: Int
  /// Answers that are looked at when there is one too many. It divides no usual capacity, so that each
  /// has its turn where all are waited for.
  static let lookedAt = 7

  /// A coordinator as its journal tells.
  /// - Parameters:
  ///   - resultCapacity: How many answers are kept for callers that ask again; as many again where
  ///     callers wait for them. Unit: answers.
  ///   - overtakingLimit: How often others may get the event that a request waits for, before it
  ///     keeps them back.
  package init(
    name: String, journal: CoordinatorJournal = CoordinatorJournal(), resultCapacity: Int = 4096,
    overtakingLimit: Int = 2
  ) {
    self.name = name
    self.resultCapacity = resultCapacity
    self.overtakingLimit = overtakingLimit
    epoch = journal.epoch + 1
    forgottenThrough = journal.forgottenThrough
    for commit in journal.commits {
      results[commit.request] = commit.reply
      resultTransactions[commit.request] = commit.transaction
      resultOrder.append(commit.request)
      callers[commit.transaction] = commit.request
      guard !journal.acknowledged.contains(commit.transaction) else { continue }
      let participants = commit.moves.keys.sorted()
      transactions[commit.transaction] = .recovered(commit.transaction, participants)
      for participant in participants { committing[participant, default: 0] += 1 }
    }
  }

  /// Whether nothing is under way: no locks, no requests.
  package var isIdle: Bool { locks.isEmpty && calls.isEmpty && transactions.isEmpty }

  /// Whether a participant may not have taken yet what was committed.
  package func isCommitting(_ participant: String) -> Bool { committing[participant] != nil }

  /// The event that a request asks for, while it is not answered.
  package func event(of request: RequestID) -> String? { calls[request]?.request.event }

  /// The transactions that are not decided: no other one may have their participants.
  package var undecided: [TransactionStateMachine] {
    Set(locks.values).sorted().compactMap { transactions[$0] }
  }

  /// The transactions under way, with those whose commit not all have acknowledged.
  package var transactionsUnderWay: [TransactionStateMachine] {
    transactions.values.sorted { $0.id < $1.id }
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
  /// A participant has promised to take part in a transaction of which nothing is known any more. It
  /// is told that the transaction was given up.
  case queryOfForgotten(TransactionID, from: String)
}
