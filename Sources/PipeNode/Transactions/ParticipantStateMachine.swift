import PipeMachines
import PipeWire

/// A node's part in synchronized events: a pure state machine.
///
/// The shell owns the node's machine, its journal and the connection to the coordinator. It
///
/// - calls ``prepare(_:event:wantsChange:evaluate:)``, ``commit(_:)``, ``abort(_:)`` and
///   ``deliver(_:event:evaluate:)`` for what comes from the coordinator, and ``connected()`` when
///   the connection is there (again);
/// - performs the actions in their order, and calls ``recorded(_:)`` when a record is durable. It may
///   make several records durable at once, in the order of the actions, but makes durable what is
///   being taken (``isTaking``) before it gives the next PREPARE or DELIVER;
/// - has the machine run a transition that takes its time while it is ``Phase/evaluating(_:)``, and calls
///   ``evaluated(_:_:)`` when that has returned, or ``limitPassed(_:)`` when its time is up;
/// - calls ``disconnected()`` where a message finds that the connection is gone;
/// - keeps every other input (events, effects' results, timers) while ``takesInputs`` is false, and
///   goes on with them at ``Action/unfreeze``; after each step of its own, and when it has refused to
///   evaluate and would now, it calls ``stepped()``;
/// - after a start makes this value of the journal, and performs what ``start()`` returns.
///
/// A participant that is prepared is frozen until its coordinator tells the end: it never decides.
package struct ParticipantStateMachine: Sendable {
  /// What the shell has to do.
  package enum Action: Hashable, Sendable {
    /// Makes the record durable, then calls ``ParticipantStateMachine/recorded(_:)``.
    case record(ParticipantRecord)
    case send(ParticipantMessage)
    /// Takes the step: enters the state, with output and pipe rules. The record that follows is durable
    /// together with all that this leads to, and nothing of it is shown to others before that.
    case enter(PreparedStep)
    /// Calls ``ParticipantStateMachine/limitPassed(_:)`` after that time, once.
    case startLimit(TransactionID, Duration)
    case stopLimit
    /// Has the machine stand where it stood: what runs is cancelled, and where it has led is forgotten.
    case standBack
    /// Goes on with the inputs that were kept.
    case unfreeze
    /// Calls ``ParticipantStateMachine/queryTimerFired()`` after a while, once.
    case startQueryTimer
    case stopQueryTimer
    /// Tells of a message that no sound coordinator sends; nothing was done.
    case report(ParticipantProblem)
  }

  /// Says where an event would lead the machine, which does not take it by that; or begins to find out.
  package typealias Evaluate = (_ event: [UInt8]) throws(ParticipantRefusal) -> ParticipantAnswer

  /// The phases; all but `free` are frozen.
  package enum Phase: Hashable, Sendable {
    case free
    /// Its transition runs, which takes its time. Nothing is promised, so nothing is recorded.
    case evaluating(ParticipantEvaluation)
    /// The record that it is prepared is not durable yet, so it has not said yes.
    case preparing(PreparedStep)
    case prepared(PreparedStep)
    /// The step's record is not durable yet.
    case applying(PreparedStep)
    /// The same, of an event that it takes for itself.
    case delivering(PreparedStep)
  }

  package private(set) var phase: Phase
  /// The highest transaction that it has heard of; no PREPARE up to it is new.
  package private(set) var watermark: TransactionID
  /// The highest transaction whose step is durable.
  package private(set) var applied: TransactionID
  /// The highest of these that was committed, and not taken by this node for itself. An earlier version of this
  /// library recorded those as well.
  package private(set) var committed: TransactionID
  /// When ``ParticipantMessage/changed`` is to be said.
  private var owed = Owed.nothing

  /// What those are told who were refused and wait. They ask again then, so that one word does for all.
  private enum Owed: Comparable {
    case nothing
    /// The next step: it was refused in the state that it found.
    case nextStep
    /// That it is free, or its next step: it was refused because it was not.
    case release
  }

  /// A participant as its journal tells.
  /// - Parameters:
  ///   - prepared: The last ``ParticipantRecord/prepared(_:)``.
  ///   - applied: The transaction of the last ``ParticipantRecord/step(_:)``.
  ///   - version: The count of steps that the journal tells of.
  package init(
    prepared: PreparedStep? = nil, applied: TransactionID = .zero, version: UInt64 = 0
  ) {
    self.applied = applied
    committed = applied
    watermark = max(applied, prepared?.transaction ?? .zero)
    // A step since then shows that the transaction has ended.
    if let prepared, prepared.transaction > applied, prepared.move.version == version + 1 {
      phase = .prepared(prepared)
    } else {
      phase = .free
    }
  }

  /// Whether it takes a step whose record is not durable yet.
  package var isTaking: Bool {
    switch phase {
    case .applying, .delivering: true
    case .free, .evaluating, .preparing, .prepared: false
    }
  }

  /// The step that it is prepared for, or is taking.
  package var step: PreparedStep? {
    switch phase {
    case .free, .evaluating: nil
    case .preparing(let step), .prepared(let step), .applying(let step), .delivering(let step): step
    }
  }

  /// The transaction under way, and its event.
  package var underWay: (transaction: TransactionID, event: [UInt8])? {
    if case .evaluating(let evaluation) = phase {
      return (evaluation.transaction, evaluation.event)
    }
    return step.map { ($0.transaction, $0.event) }
  }

  /// The step for which it has said yes, while it waits for the end.
  package var preparedStep: PreparedStep? {
    if case .prepared(let step) = phase { step } else { nil }
  }

  package var isPrepared: Bool { preparedStep != nil }

  /// Whether the node may take other inputs now.
  package var takesInputs: Bool { if case .free = phase { true } else { false } }

  /// Whether it takes a step that all take.
  package var isApplying: Bool { if case .applying = phase { true } else { false } }
}

// The table of DESIGN.md 3.3, a method for each input.

extension ParticipantStateMachine {
  /// The node has started; its journal has been read.
  package func start() -> [Action] {
    switch phase {
    case .prepared: [.startQueryTimer]
    case .free, .evaluating, .preparing, .applying, .delivering: []
    }
  }

  /// The connection to the coordinator is there, or there again.
  package func connected() -> [Action] {
    switch phase {
    case .prepared(let step): [.send(.query(step.transaction)), .startQueryTimer]
    case .evaluating(let request): [.startQueryTimer, .send(.evaluating(request.transaction))]
    case .free, .preparing, .applying, .delivering: []
    }
  }

  /// The coordinator has not told the end for a while.
  package func queryTimerFired() -> [Action] {
    switch phase {
    case .prepared(let step): [.send(.query(step.transaction)), .startQueryTimer]
    case .evaluating(let request): [.startQueryTimer, .send(.evaluating(request.transaction))]
    case .free, .preparing, .applying, .delivering: []
    }
  }

  /// The connection to the coordinator is gone, and nobody waits for what runs. What is promised stays so.
  package mutating func disconnected() -> [Action] {
    switch phase {
    case .evaluating: unfreeze(after: Self.endOfEvaluation + [.standBack])
    case .free, .preparing, .prepared, .applying, .delivering: []
    }
  }

  /// The coordinator asks whether the event is enabled.
  /// - Parameter evaluate: Asks the machine, once, without a step.
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
      // It follows when the transition has returned, which runs once.
      return []
    case .free, .evaluating, .preparing, .prepared, .applying, .delivering: break
    }
    return begin(transaction, event, .prepare(wantsChange: wantsChange), evaluate)
  }

  /// The coordinator asks the node to take the event for itself.
  /// - Parameter evaluate: Asks the machine, once, without a step.
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

  /// Finds out where an event leads that the coordinator asks about. Where its transaction is not new,
  /// nobody waits for an answer.
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
      case .moves(let move): return go(on: transaction, event, purpose, with: move)
      case .takesTime(let limit, let version, let state):
        phase = .evaluating(
          ParticipantEvaluation(
            transaction: transaction, event: event, purpose: purpose,
            overdue: .refused(.overdue, version: version, state: state)))
        return [.startLimit(transaction, limit), .startQueryTimer]
      }
    } catch {
      return refuse(transaction, error, purpose)
    }
  }

  /// It is known where the event leads.
  private mutating func go(
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
      if wantsChange { owed = max(owed, refusal == .busy ? .release : .nextStep) }
      return [.send(.no(transaction, refusal))]
    case .deliver: return [.send(.delivered(transaction, .failure(refusal)))]
    }
  }

  /// The transition that takes its time has returned, or has thrown.
  package mutating func evaluated(
    _ transaction: TransactionID, _ result: Result<ParticipantMove, ParticipantRefusal>
  ) -> [Action] {
    // Else its time was up, or the transaction was aborted.
    guard case .evaluating(let request) = phase, request.transaction == transaction else {
      return []
    }
    switch result {
    case .success(let move):
      return Self.endOfEvaluation
        + go(on: transaction, request.event, request.purpose, with: move)
    case .failure(let refusal): return giveUp(request, refusal)
    }
  }

  /// The transition has not returned in time.
  package mutating func limitPassed(_ transaction: TransactionID) -> [Action] {
    guard case .evaluating(let request) = phase, request.transaction == transaction else {
      return []
    }
    return giveUp(request, request.overdue)
  }

  /// A transition has come to nothing: the machine stands where it stood, and takes other inputs.
  private mutating func giveUp(
    _ request: ParticipantEvaluation, _ refusal: ParticipantRefusal
  ) -> [Action] {
    phase = .free
    return Self.endOfEvaluation + [.standBack] + released()
      + refuse(request.transaction, refusal, request.purpose) + [.unfreeze]
  }

  private static let endOfEvaluation: [Action] = [.stopLimit, .stopQueryTimer]

  /// The coordinator says that all take the event.
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

  /// The coordinator says that none takes the event.
  package mutating func abort(_ transaction: TransactionID) -> [Action] {
    watermark = max(watermark, transaction)
    switch phase {
    case .evaluating(let request) where request.transaction == transaction:
      return unfreeze(after: Self.endOfEvaluation + [.standBack])
    case .preparing(let step) where step.transaction == transaction:
      return unfreeze(after: [.standBack])
    case .prepared(let step) where step.transaction == transaction:
      return unfreeze(after: [.stopQueryTimer, .standBack])
    case .applying(let step) where step.transaction == transaction:
      return [.report(.abortOfCommitted(transaction))]
    case .free, .evaluating, .preparing, .prepared, .applying, .delivering:
      return []
    }
  }

  /// A record is durable.
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
      // The transaction was aborted meanwhile.
      return []
    case (.free, .step), (.evaluating, .step), (.preparing, .step), (.prepared, .step),
      (.applying, .step), (.delivering, .step):
      return []
    }
  }

  /// The node has taken a step of its own, or would evaluate what it has refused to.
  package mutating func stepped() -> [Action] {
    guard owed > .nothing else { return [] }
    owed = .nothing
    return [.send(.changed)]
  }

  /// It is free, and stands where it stood: only who was refused for that is told.
  private mutating func released() -> [Action] { owed == .release ? stepped() : [] }

  /// - Parameter hasMoved: Whether a step was taken.
  private mutating func unfreeze(after actions: [Action], hasMoved: Bool = false) -> [Action] {
    phase = .free
    return actions + (hasMoved ? stepped() : released()) + [.unfreeze]
  }
}

/// What a participant keeps in its journal.
package enum ParticipantRecord: Hashable, Sendable {
  /// It is ready for the step. The next record of a step ends that, whichever step it is.
  case prepared(PreparedStep)
  /// The step is taken; the state and the transaction are one record.
  case step(PreparedStep)
}

/// A message that contradicts what the participant knows.
package enum ParticipantProblem: Hashable, Sendable {
  /// A commit of a transaction that it never said yes to: its journal is not the one it had.
  case commitOfUnknown(TransactionID)
  /// An abort of a transaction that was committed.
  case abortOfCommitted(TransactionID)

  /// The problem as the log tells it.
  package var warning: String {
    switch self {
    case .commitOfUnknown(let transaction):
      "synchronized event \(transaction) was committed, and this node knows nothing of it: "
        + "the process that had agreed is gone, and kept no journal, or its journal is gone. "
        + "The step is lost"
    case .abortOfCommitted(let transaction):
      "synchronized event \(transaction) was committed here, and the coordinator says that it was "
        + "not: its journal is not the one it had"
    }
  }
}

/// What a machine says to an event that it is to take together with others.
package enum ParticipantAnswer: Hashable, Sendable {
  case moves(ParticipantMove)
  /// Its transition takes its time, and runs; it stands in a state meanwhile.
  case takesTime(limit: Duration, version: UInt64, state: [UInt8])
}

/// A question of the coordinator that the machine has yet to answer.
package struct ParticipantEvaluation: Hashable, Sendable {
  /// What the answer is for.
  package enum Purpose: Hashable, Sendable {
    /// A promise. Where it is refused, the coordinator may want to hear of the next step.
    case prepare(wantsChange: Bool)
    /// The step itself.
    case deliver
  }

  package let transaction: TransactionID
  package let event: [UInt8]
  package let purpose: Purpose
  /// What is said when its time is up.
  package let overdue: ParticipantRefusal
}
