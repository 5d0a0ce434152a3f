import PipeMachines
import PipeWire

/// A participant in synchronized events: a pure state machine.
///
/// The shell owns the node's machine, its journal and the connection to the coordinator. It
///
/// - calls ``prepare(_:event:wantsChange:evaluate:)``, ``commit(_:)``, ``abort(_:)`` and
///   ``deliver(_:event:evaluate:)`` for messages from the coordinator, and ``connected()`` on each
///   new connection;
/// - performs the actions in their order, and calls ``recorded(_:)`` when a record is durable. It
///   may make several records durable at once, in the order of the actions. It makes a step that is
///   being taken (``isTaking``) durable before it passes on the next PREPARE or DELIVER;
/// - lets the machine run an asynchronous transition in ``Phase/evaluating(_:)``, and calls
///   ``evaluated(_:_:)`` when the transition has returned, or ``limitPassed(_:)`` when its time is
///   up;
/// - calls ``disconnected()`` if a message finds that the connection is lost;
/// - keeps every other input (events, effects' results, timers) while ``takesInputs`` is false, and
///   continues with them at ``Action/unfreeze``;
/// - calls ``stepped()`` after each step of the node's own, and when the machine would evaluate
///   again after it has refused to;
/// - creates this value from the journal after a start, and performs the actions of ``start()``.
///
/// A prepared participant is frozen until its coordinator sends the outcome: it never decides by
/// itself.
package struct ParticipantStateMachine: Sendable {
  /// An action that the shell must perform.
  package enum Action: Hashable, Sendable {
    /// Makes the record durable, then calls ``ParticipantStateMachine/recorded(_:)``.
    case record(ParticipantRecord)
    case send(ParticipantMessage)
    /// Takes the step: enters the state, with output and pipe rules. The record that follows
    /// becomes durable together with all consequences. None of them is visible to others before
    /// that.
    case enter(PreparedStep)
    /// Calls ``ParticipantStateMachine/limitPassed(_:)`` once, after this time.
    case startLimit(TransactionID, Duration)
    case stopLimit
    /// Rolls the machine back: cancels the running transition, and discards its result.
    case rollBack
    /// Continues with the inputs that were kept.
    case unfreeze
    /// Calls ``ParticipantStateMachine/queryTimerFired()`` once, after a while.
    case startQueryTimer
    case stopQueryTimer
    /// Logs a message that no sound coordinator sends. Nothing was changed.
    case report(ParticipantConflict)
  }

  /// Returns where an event would lead the machine, without taking it, or starts to find out.
  package typealias Evaluate = (_ event: [UInt8]) throws(ParticipantRefusal) -> ParticipantAnswer

  /// The phases. The participant is frozen in all phases except `free`.
  package enum Phase: Hashable, Sendable {
    case free
    /// An asynchronous transition runs. Nothing is promised, so nothing is recorded.
    case evaluating(ParticipantEvaluation)
    /// The record of the prepared step is not durable yet, so the participant has not voted yes.
    case preparing(PreparedStep)
    case prepared(PreparedStep)
    /// The record of the step is not durable yet.
    case applying(PreparedStep)
    /// The record of a step that the node takes for itself is not durable yet.
    case delivering(PreparedStep)
  }

  package private(set) var phase: Phase
  /// The highest transaction that the participant knows of. No PREPARE up to it is new.
  package private(set) var watermark: TransactionID
  /// The highest transaction whose step is durable.
  package private(set) var applied: TransactionID
  /// The highest applied transaction that was committed, and not taken by this node for itself. An
  /// earlier version of this library recorded the latter as well.
  package private(set) var committed: TransactionID
  /// The condition for sending ``ParticipantMessage/changed``.
  private var pendingNotification = PendingNotification.nothing

  /// A notification owed to requests that were refused and wait. They ask again then, so one
  /// message serves all of them.
  private enum PendingNotification: Comparable {
    case nothing
    /// Due at the next step: a request was refused in the present state.
    case nextStep
    /// Due when the participant is free, or at its next step: a request was refused because it was
    /// not free.
    case release
  }

  /// Creates a participant from its journal.
  /// - Parameters:
  ///   - prepared: The last ``ParticipantRecord/prepared(_:)``.
  ///   - applied: The transaction of the last ``ParticipantRecord/step(_:)``.
  ///   - version: The count of steps in the journal.
  package init(
    prepared: PreparedStep? = nil, applied: TransactionID = .zero, version: UInt64 = 0
  ) {
    self.applied = applied
    committed = applied
    watermark = max(applied, prepared?.transaction ?? .zero)
    // A later step shows that the transaction has ended.
    if let prepared, prepared.transaction > applied, prepared.move.version == version + 1 {
      phase = .prepared(prepared)
    } else {
      phase = .free
    }
  }

  /// Whether the participant is taking a step whose record is not durable yet.
  package var isTakingStep: Bool {
    switch phase {
    case .applying, .delivering: true
    case .free, .evaluating, .preparing, .prepared: false
    }
  }

  /// The step that the participant is prepared for, or is taking.
  package var step: PreparedStep? {
    switch phase {
    case .free, .evaluating: nil
    case .preparing(let step), .prepared(let step), .applying(let step), .delivering(let step): step
    }
  }

  /// The transaction in progress, and its event.
  package var transactionInProgress: (transaction: TransactionID, event: [UInt8])? {
    if case .evaluating(let evaluation) = phase {
      return (evaluation.transaction, evaluation.event)
    }
    return step.map { ($0.transaction, $0.event) }
  }

  /// The step that the participant has voted yes for, while it waits for the outcome.
  package var preparedStep: PreparedStep? {
    if case .prepared(let step) = phase { step } else { nil }
  }

  package var isPrepared: Bool { preparedStep != nil }

  /// Whether the node may take other inputs now.
  package var acceptsInputs: Bool { if case .free = phase { true } else { false } }

  /// Whether the participant is taking a step that all participants take.
  package var isApplying: Bool { if case .applying = phase { true } else { false } }
}

// The table of docs/PROTOCOL.md, a method for each input.

extension ParticipantStateMachine {
  /// Starts the participant, after its journal has been read.
  package func start() -> [Action] {
    switch phase {
    case .prepared: [.startQueryTimer]
    case .free, .evaluating, .preparing, .applying, .delivering: []
    }
  }

  /// Handles a new connection of the coordinator, the first or a later one.
  package func connected() -> [Action] {
    switch phase {
    case .prepared(let step): [.send(.query(step.transaction)), .startQueryTimer]
    case .evaluating(let request): [.startQueryTimer, .send(.evaluating(request.transaction))]
    case .free, .preparing, .applying, .delivering: []
    }
  }

  /// Handles the query timer: the coordinator has not sent the outcome for a while.
  package func queryTimerFired() -> [Action] {
    switch phase {
    case .prepared(let step): [.send(.query(step.transaction)), .startQueryTimer]
    case .evaluating(let request): [.startQueryTimer, .send(.evaluating(request.transaction))]
    case .free, .preparing, .applying, .delivering: []
    }
  }

  /// Handles the loss of the coordinator's connection: a running evaluation is no longer awaited. A
  /// promise stays valid.
  package mutating func disconnected() -> [Action] {
    switch phase {
    case .evaluating: unfreeze(after: Self.endOfEvaluation + [.rollBack])
    case .free, .preparing, .prepared, .applying, .delivering: []
    }
  }

  /// Handles PREPARE: the coordinator asks whether the event is enabled.
  /// - Parameter evaluate: Evaluates the event without a step; called at most once.
  package mutating func prepare(
    _ transaction: TransactionID, event: [UInt8], wantsChange: Bool, evaluate: Evaluate
  ) -> [Action] {
    switch phase {
    case .prepared(let step) where step.transaction == transaction:
      return [.send(.yes(transaction, step.move))]
    case .preparing(let step) where step.transaction == transaction,
      .applying(let step) where step.transaction == transaction,
      .delivering(let step) where step.transaction == transaction:
      // The answer follows when the record is durable.
      return []
    case .evaluating(let evaluation) where evaluation.transaction == transaction:
      // The answer follows when the transition, which runs once, has returned.
      return []
    case .free, .evaluating, .preparing, .prepared, .applying, .delivering: break
    }
    return begin(transaction, event, .prepare(wantsChange: wantsChange), evaluate)
  }

  /// Handles DELIVER: the coordinator asks the node to take the event for itself.
  /// - Parameter evaluate: Evaluates the event without a step; called at most once.
  package mutating func deliver(
    _ transaction: TransactionID, event: [UInt8], evaluate: Evaluate
  ) -> [Action] {
    switch phase {
    case .delivering(let step) where step.transaction == transaction: return []
    case .evaluating(let request) where request.transaction == transaction: return []
    case .free, .evaluating, .preparing, .prepared, .applying, .delivering: break
    }
    return begin(transaction, event, .deliver, evaluate)
  }

  /// Evaluates an event for the coordinator. If its transaction is not new, no answer is
  /// awaited.
  private mutating func begin(
    _ transaction: TransactionID, _ event: [UInt8], _ purpose: ParticipantEvaluation.Purpose,
    _ evaluate: Evaluate
  ) -> [Action] {
    let isNew = transaction > watermark
    watermark = max(watermark, transaction)
    guard case .free = phase else { return refuse(transaction, .busy, purpose) }
    guard isNew else { return [] }
    do throws(ParticipantRefusal) {
      switch try evaluate(event) {
      case .moves(let move): return proceed(on: transaction, event, purpose, with: move)
      case .takesTime(let limit, let version, let state):
        phase = .evaluating(
          ParticipantEvaluation(
            transaction: transaction, event: event, purpose: purpose,
            timeoutRefusal: .refused(.timedOut, version: version, state: state)))
        return [.startLimit(transaction, limit), .startQueryTimer]
      }
    } catch {
      return refuse(transaction, error, purpose)
    }
  }

  /// Continues with the result of an evaluation.
  private mutating func proceed(
    on transaction: TransactionID, _ event: [UInt8], _ purpose: ParticipantEvaluation.Purpose,
    with move: ParticipantMove
  ) -> [Action] {
    let step = PreparedStep(transaction: transaction, event: event, move: move)
    switch purpose {
    case .prepare:
      phase = .preparing(step)
      return [.record(.prepared(step))]
    case .deliver:
      phase = .delivering(step)
      return [.enter(step), .record(.step(step))]
    }
  }

  private mutating func refuse(
    _ transaction: TransactionID, _ refusal: ParticipantRefusal,
    _ purpose: ParticipantEvaluation.Purpose
  ) -> [Action] {
    switch purpose {
    case .prepare(let wantsChange):
      if wantsChange {
        pendingNotification = max(pendingNotification, refusal == .busy ? .release : .nextStep)
      }
      return [.send(.no(transaction, refusal))]
    case .deliver: return [.send(.delivered(transaction, .failure(refusal)))]
    }
  }

  /// Handles the result of an asynchronous transition, which has returned or thrown.
  package mutating func evaluated(
    _ transaction: TransactionID, _ result: Result<ParticipantMove, ParticipantRefusal>
  ) -> [Action] {
    // Otherwise its time was up, or the transaction was aborted.
    guard case .evaluating(let request) = phase, request.transaction == transaction else {
      return []
    }
    switch result {
    case .success(let move):
      return Self.endOfEvaluation
        + proceed(on: transaction, request.event, request.purpose, with: move)
    case .failure(let refusal): return abandonEvaluation(request, refusal)
    }
  }

  /// Handles a transition that has not returned in time.
  package mutating func limitPassed(_ transaction: TransactionID) -> [Action] {
    guard case .evaluating(let request) = phase, request.transaction == transaction else {
      return []
    }
    return abandonEvaluation(request, request.timeoutRefusal)
  }

  /// Gives up an evaluation: the machine is rolled back, and takes other inputs.
  private mutating func abandonEvaluation(
    _ request: ParticipantEvaluation, _ refusal: ParticipantRefusal
  ) -> [Action] {
    phase = .free
    return Self.endOfEvaluation + [.rollBack] + notifyReleased()
      + refuse(request.transaction, refusal, request.purpose) + [.unfreeze]
  }

  private static let endOfEvaluation: [Action] = [.stopLimit, .stopQueryTimer]

  /// Handles COMMIT: all participants take the event.
  package mutating func commit(_ transaction: TransactionID) -> [Action] {
    switch phase {
    case .prepared(let step) where step.transaction == transaction:
      phase = .applying(step)
      return [.stopQueryTimer, .enter(step), .record(.step(step))]
    case .applying(let step) where step.transaction == transaction:
      return []
    case .free, .evaluating, .preparing, .prepared, .applying, .delivering:
      return [
        transaction <= applied
          ? .send(.ack(transaction)) : .report(.commitOfUnknown(transaction))
      ]
    }
  }

  /// Handles ABORT: no participant takes the event.
  package mutating func abort(_ transaction: TransactionID) -> [Action] {
    watermark = max(watermark, transaction)
    switch phase {
    case .evaluating(let request) where request.transaction == transaction:
      return unfreeze(after: Self.endOfEvaluation + [.rollBack])
    case .preparing(let step) where step.transaction == transaction:
      return unfreeze(after: [.rollBack])
    case .prepared(let step) where step.transaction == transaction:
      return unfreeze(after: [.stopQueryTimer, .rollBack])
    case .applying(let step) where step.transaction == transaction:
      return [.report(.abortOfCommitted(transaction))]
    case .free, .evaluating, .preparing, .prepared, .applying, .delivering:
      return []
    }
  }

  /// Handles a record that has become durable.
  package mutating func recorded(_ record: ParticipantRecord) -> [Action] {
    switch (phase, record) {
    case (.preparing(let step), .prepared(let recorded)) where step == recorded:
      phase = .prepared(step)
      return [.send(.yes(step.transaction, step.move)), .startQueryTimer]
    case (.applying(let step), .step(let recorded)) where step == recorded:
      applied = step.transaction
      committed = step.transaction
      return unfreeze(after: [.send(.ack(step.transaction))], hasMoved: true)
    case (.delivering(let step), .step(let recorded)) where step == recorded:
      applied = step.transaction
      return unfreeze(
        after: [.send(.delivered(step.transaction, .success(step.move.version)))], hasMoved: true)
    case (.free, .prepared), (.evaluating, .prepared), (.preparing, .prepared),
      (.prepared, .prepared), (.applying, .prepared), (.delivering, .prepared):
      // The transaction was aborted before its record was durable.
      return []
    case (.free, .step), (.evaluating, .step), (.preparing, .step), (.prepared, .step),
      (.applying, .step), (.delivering, .step):
      return []
    }
  }

  /// Notes that the node has taken a step of its own, or would evaluate again after it has refused
  /// to.
  package mutating func stepped() -> [Action] {
    guard pendingNotification > .nothing else { return [] }
    pendingNotification = .nothing
    return [.send(.changed)]
  }

  /// Notifies requests that were refused because the participant was not free. It is free now, in
  /// the same state.
  private mutating func notifyReleased() -> [Action] {
    pendingNotification == .release ? stepped() : []
  }

  /// - Parameter hasMoved: Whether a step was taken.
  private mutating func unfreeze(after actions: [Action], hasMoved: Bool = false) -> [Action] {
    phase = .free
    return actions + (hasMoved ? stepped() : notifyReleased()) + [.unfreeze]
  }
}

/// A record that a participant keeps in its journal.
package enum ParticipantRecord: Hashable, Sendable {
  /// The participant is prepared for the step. The next record of any step ends that.
  case prepared(PreparedStep)
  /// The step is taken. The state and the transaction are one record.
  case step(PreparedStep)
}

/// A message that contradicts what the participant knows.
package enum ParticipantConflict: Hashable, Sendable {
  /// A commit of a transaction that the participant never voted yes for: its journal is not the one
  /// that it had.
  case commitOfUnknown(TransactionID)
  /// An abort of a transaction that was committed.
  case abortOfCommitted(TransactionID)

  /// The log message.
  package var warning: String {
    switch self {
    case .commitOfUnknown(let transaction):
      "synchronized event \(transaction) was committed, but is unknown to this node: the process "
        + "that had agreed to the event kept no journal, or its journal was removed; the step is "
        + "lost"
    case .abortOfCommitted(let transaction):
      "synchronized event \(transaction) was committed at this node, but the coordinator reports "
        + "an abort: the journal of the coordinator was replaced"
    }
  }
}

/// A machine's answer to an event that it should take together with others.
package enum ParticipantAnswer: Hashable, Sendable {
  case moves(ParticipantMove)
  /// The asynchronous transition runs, while the machine stays in this state.
  case takesTime(limit: Duration, version: UInt64, state: [UInt8])
}

/// A request of the coordinator that the machine has not answered yet.
package struct ParticipantEvaluation: Hashable, Sendable {
  /// The purpose of the answer.
  package enum Purpose: Hashable, Sendable {
    /// A promise. After a refusal, the coordinator may want to be notified of the next step.
    case prepare(wantsChange: Bool)
    /// The step itself.
    case deliver
  }

  package let transaction: TransactionID
  package let event: [UInt8]
  package let purpose: Purpose
  /// The answer when the time is up.
  package let timeoutRefusal: ParticipantRefusal
}
