import PipeWire

/// What a participant needs of the machine that takes part, beside the ``ParticipatingSteps``.
protocol ParticipatingMachine: AnyObject {
  /// Tells the state to a coordinator that has just come.
  func tellState()
  /// Whether an effect has not ended, and is not cancelled.
  func isRunning(effect: UInt64) -> Bool
  /// What an effect has emitted is about to be taken, or was taken.
  func taken(_ emitted: EmittedEvent)
  /// Whether it is in doubt has changed, in the same state.
  func inDoubtChanged()
}

/// What each synchronized event calls: made where the machine's type is known, and so compiled for it.
struct ParticipatingSteps {
  /// Says where an event would lead the machine now; nothing changes.
  let evaluate: ParticipantStateMachine.Evaluate
  /// Takes the step that was prepared: enters the state, which is recorded with all that follows.
  let enter: (PreparedStep, _ isCommitted: Bool) -> Void
}
