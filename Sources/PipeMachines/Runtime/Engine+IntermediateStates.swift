// Intermediate states of a transition.
extension Engine {
  /// Whether the current state is an intermediate state of a transition. If the process dies in
  /// such a state, the step is lost.
  @inlinable
  package var isIntermediate: Bool { intermediateStates.countInStep > 0 }

  /// The state after the last complete step.
  @usableFromInline
  package var settledState: State { intermediateStates.origin ?? state }

  /// The version of ``settledState``.
  package var settledVersion: UInt64 { version - intermediateStates.countInStep }

  /// The number of intermediate states since the run began.
  package var intermediateStateCount: UInt64 { intermediateStates.countInRun }

  /// Publishes an intermediate state. Events that depend on this state are sent at the end of the
  /// step.
  @export(interface)
  func pass(through next: State) {
    guard let transition, canShow?(next) ?? true else { return }
    let hasConsequences = onIntermediateStateSettled != nil || !senders.isEmpty
    intermediateStates.pass(from: state, through: next, hasConsequences: hasConsequences)
    show(next, because: transition.cause)
  }

  /// Handles the failure of a step. If intermediate states were published, restores the state in
  /// which the step began, and publishes it under a new version.
  func rollBack(because cause: String) {
    if let origin = intermediateStates.rollBack() { show(origin, because: cause) }
  }

  private func show(_ next: State, because cause: String) {
    state = next
    version &+= 1
    (onIntermediateState ?? onEntry)?(state, version, cause)
    observe(state, runtime.stateMiddleware)
  }

  /// Sends the events that the send rules make from the intermediate states. Called when the step
  /// is over.
  @usableFromInline
  func applyIntermediateStateRules() {
    for state in intermediateStates.end() {
      onIntermediateStateSettled?(state)
      fireSenders(state)
    }
  }
}
