import PipeRuntime

/// The kettle as a reducer function. While the kettle heats, a feedback waits until the water
/// boils.
package enum KettleReducer: Machine {
  package static func reduce(_ state: KettleState, _ event: KettleEvent) -> KettleState {
    switch (state, event) {
    case (.off, .switchOn): .heating
    case (.heating, .boiled): .hot
    case (.heating, .switchOff), (.hot, .switchOff): .off
    case (.off, _), (.heating, .switchOn), (.hot, _): state
    }
  }

  package static func stateMachine(
    _ parameters: KettleParameters
  ) -> StateMachine<KettleState, KettleEvent, Never> {
    StateMachine(initial: .off, reduce: reduce)
  }

  package static func runtime(
    _ parameters: KettleParameters, _ ports: Ports
  ) -> Runtime<KettleState, KettleEvent, Never> {
    Runtime().feedback(
      Feedback(when: { $0 == .heating }, gives: .oneOfOrNothing { KettleEvent.boiled }) { _ in
        do { try await parameters.boil() } catch { return nil }
        return .boiled
      })
  }
}
