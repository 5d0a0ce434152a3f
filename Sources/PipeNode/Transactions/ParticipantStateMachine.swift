import PipeMachines
import PipeWire

/// A participant in synchronized events, as a pure state machine.
///
/// The owner of this value, ``Participant``, has the node's machine, its journal and the connection
/// to the coordinator. The owner
///
/// - calls ``prepare(_:event:wantsChange:evaluate:)``, ``commit(_:)``, ``abort(_:)`` and
///   ``deliver(_:event:evaluate:)`` for messages from the coordinator, and ``connected()`` on each
///   new connection;
/// - performs the actions in their order, and calls ``recorded(_:)`` when a record is durable. The
///   owner may make several records durable at once, in the order of the actions. While
///   ``isTakingStep`` is true, the owner makes the step durable before it passes on the next
///   PREPARE or DELIVER;
/// - lets the machine run an asynchronous transition in ``Phase/evaluating(_:)``, and calls
///   ``evaluated(_:_:)`` when the transition has returned, or ``limitPassed(_:)`` when the
///   transition has exceeded its time limit;
/// - calls ``disconnected()`` if a message cannot be sent because the connection is lost;
/// - queues all other inputs (events, effects' results, timers) while ``acceptsInputs`` is false,
///   and processes them after ``Action/unfreeze``;
/// - calls ``stepped()`` after each of the node's own steps, and when the machine can evaluate
///   events again after it had refused to do so;
/// - creates this value from the journal after a start, and performs the actions of ``start()``.
///
/// A prepared participant is frozen until the coordinator sends the outcome. It never decides by
/// itself.
package struct ParticipantStateMachine: Sendable {
  /// An action that the owner must perform. Actions must be performed in order.
  package enum Action: Hashable, Sendable {
    /// Make the record durable, and then call ``ParticipantStateMachine/recorded(_:)``.
    case record(ParticipantRecord)
    case send(ParticipantMessage)
    /// Take the step: enter the state, request its output, and send the events of pipes with
    /// `when`. All these results must become durable together with the following record. Before
    /// these results are durable, they must not be visible outside this process.
    case enter(PreparedStep)
    /// Call ``ParticipantStateMachine/limitPassed(_:)`` once, after this duration.
    case startLimit(TransactionID, Duration)
    case stopLimit
    /// Roll the machine back: cancel the running transition and discard its result.
    case rollBack
    /// Process the inputs that were queued while the participant was frozen.
    case unfreeze
    /// Call ``ParticipantStateMachine/queryTimerFired()`` once, after a short time.
    case startQueryTimer
    case stopQueryTimer
    /// Log a message that contradicts the participant's data. The message has changed nothing.
    case report(ParticipantConflict)
  }

  /// Evaluates an event in the current state without taking a step. Either returns the step, or
  /// starts an asynchronous transition that determines the step.
  package typealias Evaluate = (_ event: [UInt8]) throws(ParticipantRefusal) -> ParticipantAnswer

  /// The phases of a participant. It is frozen in all phases except `free`.
  package enum Phase: Hashable, Sendable {
    case free
    /// An asynchronous transition is running. The participant has promised nothing, so nothing is
    /// recorded.
    case evaluating(ParticipantEvaluation)
    /// The record of the prepared step is not durable yet. The participant votes yes when the
    /// record is durable.
    case preparing(PreparedStep)
    case prepared(PreparedStep)
    /// The transaction is committed, but the record of the step is not durable yet.
    case applying(PreparedStep)
    /// The node has taken the step of a broadcast alone, and the record of the step is not durable
    /// yet.
    case delivering(PreparedStep)
  }

  package private(set) var phase: Phase
  /// The highest transaction that the participant knows of. A PREPARE for this transaction or a
  /// lower transaction is not new.
  package private(set) var watermark: TransactionID
  /// The highest transaction whose step is durable.
  package private(set) var lastApplied: TransactionID
  /// The highest applied transaction that was committed, not a broadcast that this node has
  /// accepted alone. After a start, it may be a broadcast, because an earlier version of this
  /// library also recorded the transactions of broadcasts.
  package private(set) var lastCommitted: TransactionID
  /// The occasion on which ``ParticipantMessage/changed`` must be sent to the coordinator.
  private var pendingNotification = PendingNotification.nothing

  /// A notification that the coordinator expects, because this participant has refused some of its
  /// waiting requests. A single message makes the coordinator try all of these requests again.
  private enum PendingNotification: Comparable {
    case nothing
    /// Due at the next step, because the participant has refused a request in its current state.
    case nextStep
    /// Due when the participant is free again, because it has refused a request while it was not
    /// free.
    case release
  }

  /// Creates a participant from its journal.
  /// - Parameters:
  ///   - prepared: The last recorded ``ParticipantRecord/prepared(_:)``.
  ///   - applied: The transaction of the last recorded ``ParticipantRecord/step(_:)``.
  ///   - version: The count of steps in the journal.
  package init(
    prepared: PreparedStep? = nil, applied: TransactionID = .zero, version: UInt64 = 0
  ) {
    lastApplied = applied
    lastCommitted = applied
    watermark = max(applied, prepared?.transaction ?? .zero)
    // If the node has recorded a step after the prepared step, the transaction has ended.
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

  /// The step that the participant is prepared for or is taking; `nil` if there is none.
  package var step: PreparedStep? {
    switch phase {
    case .free, .evaluating: nil
    case .preparing(let step), .prepared(let step), .applying(let step), .delivering(let step): step
    }
  }

  /// The transaction in progress and its event; `nil` if there is none.
  package var transactionInProgress: (transaction: TransactionID, event: [UInt8])? {
    if case .evaluating(let evaluation) = phase {
      return (evaluation.transaction, evaluation.event)
    }
    return step.map { ($0.transaction, $0.event) }
  }

  /// The step for which the participant has voted yes and waits for the outcome; `nil` if there is
  /// none.
  package var preparedStep: PreparedStep? {
    if case .prepared(let step) = phase { step } else { nil }
  }

  package var isPrepared: Bool { preparedStep != nil }

  /// Whether the node can process inputs other than the coordinator's messages.
  package var acceptsInputs: Bool { if case .free = phase { true } else { false } }

  /// Whether the coordinator must be notified when the participant takes a step, or is free.
  package var isNotificationDue: Bool { pendingNotification > .nothing }

  /// Whether the participant is taking the step of a commit.
  package var isApplying: Bool { if case .applying = phase { true } else { false } }
}

// The inputs in the participant's table in docs/PROTOCOL.md. There is one method for each input.

extension ParticipantStateMachine {
  /// Starts the participant, after its journal has been read.
  package func start() -> [Action] {
    switch phase {
    case .prepared: [.startQueryTimer]
    case .free, .evaluating, .preparing, .applying, .delivering: []
    }
  }

  /// Handles a new connection of the coordinator: its first connection, or a reconnection.
  package func connected() -> [Action] {
    switch phase {
    case .prepared(let step): [.send(.query(step.transaction)), .startQueryTimer]
    case .evaluating(let request): [.startQueryTimer, .send(.evaluating(request.transaction))]
    case .free, .preparing, .applying, .delivering: []
    }
  }

  /// Handles the query timer. The coordinator has not sent the outcome for some time.
  package func queryTimerFired() -> [Action] {
    switch phase {
    case .prepared(let step): [.send(.query(step.transaction)), .startQueryTimer]
    case .evaluating(let request): [.startQueryTimer, .send(.evaluating(request.transaction))]
    case .free, .preparing, .applying, .delivering: []
    }
  }

  /// Handles the loss of the coordinator's connection. A running evaluation is abandoned, but a
  /// promise remains valid.
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
      // The answer follows when the transition has returned. The transition runs only once.
      return []
    case .free, .evaluating, .preparing, .prepared, .applying, .delivering: break
    }
    return begin(transaction, event, .prepare(wantsChange: wantsChange), evaluate)
  }

  /// Handles DELIVER. The coordinator asks this node to accept the event alone, without a vote.
  /// - Parameter evaluate: Evaluates the event without taking a step. Called at most once.
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

  /// Evaluates an event for the coordinator. If the transaction is not new, the coordinator expects
  /// no answer.
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

  /// Continues after an evaluation has returned a step.
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

  /// Handles the result of an asynchronous transition that has returned or thrown.
  package mutating func evaluated(
    _ transaction: TransactionID, _ result: Result<ParticipantMove, ParticipantRefusal>
  ) -> [Action] {
    // If this evaluation is no longer in progress, the transition had exceeded its time limit, or
    // the transaction was aborted.
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

  /// Handles an asynchronous transition that has exceeded its time limit.
  package mutating func limitPassed(_ transaction: TransactionID) -> [Action] {
    guard case .evaluating(let request) = phase, request.transaction == transaction else {
      return []
    }
    return abandonEvaluation(request, request.timeoutRefusal)
  }

  /// Abandons an evaluation: rolls the machine back, and lets the node process other inputs.
  private mutating func abandonEvaluation(
    _ request: ParticipantEvaluation, _ refusal: ParticipantRefusal
  ) -> [Action] {
    phase = .free
    return Self.endOfEvaluation + [.rollBack] + notifyReleased()
      + refuse(request.transaction, refusal, request.purpose) + [.unfreeze]
  }

  private static let endOfEvaluation: [Action] = [.stopLimit, .stopQueryTimer]

  /// Handles COMMIT. All participants accept the event.
  package mutating func commit(_ transaction: TransactionID) -> [Action] {
    switch phase {
    case .prepared(let step) where step.transaction == transaction:
      phase = .applying(step)
      return [.stopQueryTimer, .enter(step), .record(.step(step))]
    case .applying(let step) where step.transaction == transaction:
      return []
    case .free, .evaluating, .preparing, .prepared, .applying, .delivering:
      return [
        transaction <= lastApplied
          ? .send(.ack(transaction)) : .report(.commitOfUnknown(transaction))
      ]
    }
  }

  /// Handles ABORT. No participant accepts the event.
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
      lastApplied = step.transaction
      lastCommitted = step.transaction
      return unfreeze(after: [.send(.ack(step.transaction))], hasMoved: true)
    case (.delivering(let step), .step(let recorded)) where step == recorded:
      lastApplied = step.transaction
      return unfreeze(
        after: [.send(.delivered(step.transaction, .success(step.move.version)))], hasMoved: true)
    case (.free, .prepared), (.evaluating, .prepared), (.preparing, .prepared),
      (.prepared, .prepared), (.applying, .prepared), (.delivering, .prepared):
      // The transaction was aborted before the record of its prepared step was durable.
      return []
    case (.free, .step), (.evaluating, .step), (.preparing, .step), (.prepared, .step),
      (.applying, .step), (.delivering, .step):
      return []
    }
  }

  /// Notes that the node has taken a step of its own, or can evaluate events again after it had
  /// refused to do so.
  package mutating func stepped() -> [Action] {
    guard pendingNotification > .nothing else { return [] }
    pendingNotification = .nothing
    return [.send(.changed)]
  }

  /// Sends the notification for requests that were refused because the participant was not free.
  /// - Precondition: The participant is free again, and its state has not changed.
  private mutating func notifyReleased() -> [Action] {
    pendingNotification == .release ? stepped() : []
  }

  /// Ends a transaction, and lets the node process other inputs after `actions`.
  /// - Parameter hasMoved: Whether the participant has taken the step of the transaction.
  private mutating func unfreeze(after actions: [Action], hasMoved: Bool = false) -> [Action] {
    phase = .free
    return actions + (hasMoved ? stepped() : notifyReleased()) + [.unfreeze]
  }
}

/// A record that a participant writes to its journal.
package enum ParticipantRecord: Hashable, Sendable {
  /// The participant is prepared for the step. The next record of a step makes this record
  /// obsolete.
  case prepared(PreparedStep)
  /// The participant has taken the step. The same record contains the state and the transaction.
  case step(PreparedStep)
}

/// A message from the coordinator that contradicts the participant's data.
package enum ParticipantConflict: Hashable, Sendable {
  /// The coordinator has committed a transaction that is unknown to the participant. According to
  /// the participant's journal, the participant has not voted yes. So the participant had another
  /// journal when it voted.
  case commitOfUnknown(TransactionID)
  /// The coordinator has aborted a transaction that was committed.
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

/// A machine's answer to a synchronized event.
package enum ParticipantAnswer: Hashable, Sendable {
  case moves(ParticipantMove)
  /// An asynchronous transition is running. Until it returns, the machine stays in this state.
  case takesTime(limit: Duration, version: UInt64, state: [UInt8])
}

/// An evaluation in progress. The coordinator has requested the evaluation of the event.
package struct ParticipantEvaluation: Hashable, Sendable {
  /// Whether the participant votes on the event or takes the step alone.
  package enum Purpose: Hashable, Sendable {
    /// The participant votes, and promises the step if it votes yes. `wantsChange`: whether the
    /// coordinator expects a notification of the next step if the participant votes no.
    case prepare(wantsChange: Bool)
    /// This node takes the step by itself, without a vote.
    case deliver
  }

  package let transaction: TransactionID
  package let event: [UInt8]
  package let purpose: Purpose
  /// The answer if the transition exceeds its time limit.
  package let timeoutRefusal: ParticipantRefusal
}
