import PipeWire

/// What a participant needs of the machine that takes part, beside the ``ParticipatingSteps``.
protocol ParticipatingMachine: AnyObject {
  /// Tells the state to a coordinator that has just come.
  func tellState()
  /// The version of the step that started the oldest effect which has not ended.
  var oldestEffect: UInt64? { get }
  /// Whether an event that an effect has given is still to be taken.
  func wants(_ emitted: EmittedEvent) -> Bool
  /// What an effect has emitted is about to be taken, or was taken.
  func taken(_ emitted: EmittedEvent)
  /// The node stops: the transition that runs is of no use.
  func cancelEvaluation()
  /// Whether it is in doubt has changed, in the same state.
  func inDoubtChanged()
}

/// What each synchronized event calls: made where the machine's type is known, and so compiled for it.
struct ParticipatingSteps {
  /// Says where an event would lead the machine now; nothing changes. Where that takes its time, it calls
  /// ``Participant/evaluated(_:)`` later.
  let evaluate: ParticipantStateMachine.Evaluate
  /// Has the machine stand where it stood before it was asked.
  let standBack: () -> Void
  /// Takes the step that was prepared: enters the state, which is recorded with all that follows.
  let enter: (PreparedStep, _ isCommitted: Bool) -> Void
}
