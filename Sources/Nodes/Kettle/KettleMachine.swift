import PipeRuntime

/// The kettle as a state machine in the DSL.
package enum KettleMachine: Machine {
  package enum Output: MachineOutput { case boil }

  package static func stateMachine(
    _ parameters: KettleParameters
  ) -> StateMachine<KettleState, KettleEvent, Output> {
    StateMachine(initial: KettleState.off) {
      When(state: KettleState.off) {
        On(event: KettleEvent.switchOn) { Transition(to: KettleState.heating) }
      }

      When(state: KettleState.heating) {
        Execute(output: Output.boil)
      } transitions: {
        On(event: KettleEvent.boiled) { Transition(to: KettleState.hot) }
        On(event: KettleEvent.switchOff) { Transition(to: KettleState.off) }
      }

      When(state: KettleState.hot) {
        On(event: KettleEvent.switchOff) { Transition(to: KettleState.off) }
      }
    }
  }

  package static func runtime(
    _ parameters: KettleParameters, _ ports: Ports
  ) -> Runtime<KettleState, KettleEvent, Output> {
    Runtime().map(
      output: Output.boil,
      to: { () async -> KettleEvent? in
        do { try await parameters.boil() } catch { return nil }
        return .boiled
      }, gives: .oneOfOrNothing { KettleEvent.boiled },
      strategy: .cancelWhenAnyState)
  }
}
