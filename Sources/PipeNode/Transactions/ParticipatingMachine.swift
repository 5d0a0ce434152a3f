import PipeWire

/// What a participant needs of the machine that takes part.
protocol ParticipatingMachine: AnyObject {
  /// Whether the machine would take the event now; nothing changes.
  func vote(on event: [UInt8]) -> ParticipantStateMachine.Vote
  /// Takes the step that was prepared: enters the state, which is recorded with all that follows.
  /// - Parameter isCommitted: Whether all participants take it.
  func enter(_ step: PreparedStep, isCommitted: Bool)
  /// Tells the state to a coordinator that has just come.
  func tellState()
  /// Whether an effect has not ended, and is not cancelled.
  func isRunning(effect: UInt64) -> Bool
  /// What an effect has emitted is about to be taken, or was taken.
  func taken(_ emitted: EmittedEvent)
  /// Whether it is in doubt has changed, in the same state.
  func inDoubtChanged()
}

/// A participating machine whose frequent calls go straight to code compiled for its types.
final class TypedParticipatingMachine: ParticipatingMachine {
  private unowned let machine: any ParticipatingMachine
  private let ask: ([UInt8]) -> ParticipantStateMachine.Vote
  private let step: (PreparedStep, _ isCommitted: Bool) -> Void

  init(
    _ machine: any ParticipatingMachine,
    vote: @escaping ([UInt8]) -> ParticipantStateMachine.Vote,
    enter: @escaping (PreparedStep, _ isCommitted: Bool) -> Void
  ) {
    self.machine = machine
    ask = vote
    step = enter
  }

  func vote(on event: [UInt8]) -> ParticipantStateMachine.Vote { ask(event) }
  func enter(_ prepared: PreparedStep, isCommitted: Bool) { step(prepared, isCommitted) }

  // MARK: Seldom

  func tellState() { machine.tellState() }
  func isRunning(effect: UInt64) -> Bool { machine.isRunning(effect: effect) }
  func taken(_ emitted: EmittedEvent) { machine.taken(emitted) }
  func inDoubtChanged() { machine.inDoubtChanged() }
}
