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
/// - keeps every other input (events, effects' results, timers) while ``takesInputs`` is false, and
///   goes on with them at ``Action/unfreeze``; after each step of its own it calls ``stepped()``;
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
    case enter(TransactionID, event: [UInt8], ParticipantMove)
    /// Goes on with the inputs that were kept.
    case unfreeze
    /// Calls ``ParticipantStateMachine/queryTimerFired()`` after a while, once.
    case startQueryTimer
    case stopQueryTimer
    /// Tells of a message that no sound coordinator sends; nothing was done.
    case report(ParticipantProblem)
  }

  /// What a machine says to an event, without taking it.
  package enum Vote: Hashable, Sendable {
    /// It would lead to this state, with this count of steps.
    case enabled(ParticipantMove)
    case withheld(ParticipantRefusal)
  }

  /// The phases; all but `free` are frozen.
  package enum Phase: Hashable, Sendable {
    case free
    /// The record that it is prepared is not durable yet, so it has not said yes.
    case preparing(PreparedStep)
    case prepared(PreparedStep)
    /// The step's record is not durable yet.
    case applying(PreparedStep)
    /// The same, of an event that it takes for itself.
    case delivering(PreparedStep)
  }

  package internal(set) var phase: Phase
  /// The highest transaction that it has heard of; no PREPARE up to it is new.
  package internal(set) var watermark: TransactionID
  /// The highest transaction whose step is durable.
  package internal(set) var applied: TransactionID
  var owesChange = false

  /// A participant as its journal tells.
  /// - Parameters:
  ///   - prepared: The last ``ParticipantRecord/prepared(_:)``.
  ///   - applied: The transaction of the last ``ParticipantRecord/step(_:)``.
  ///   - version: The count of steps that the journal tells of.
  package init(
    prepared: PreparedStep? = nil, applied: TransactionID = .zero, version: UInt64 = 0
  ) {
    self.applied = applied
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
    case .free, .preparing, .prepared: false
    }
  }

  /// Whether the node may take other inputs now.
  package var takesInputs: Bool { phase == .free }
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
}
