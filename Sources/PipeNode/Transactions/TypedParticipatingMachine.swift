import PipeWire

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
  func taken(_ raised: RaisedEvent) { machine.taken(raised) }
  func inDoubtChanged() { machine.inDoubtChanged() }
}
