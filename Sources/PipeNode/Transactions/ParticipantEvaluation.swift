import PipeMachines
import PipeWire

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
