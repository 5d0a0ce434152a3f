import PipeMachines

/// A machine in a file that imports only the portable module.
enum Doorbell: Machine {
  enum State: MachineState, Equatable { case quiet, ringing(count: Int) }
  enum Event: MachineEvent { case press, silence }
  enum Output: MachineOutput { case ring }

  static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.quiet) {
      When(state: State.quiet) {
        On(event: Event.press) { Transition(to: State.ringing(count: 1)) }
      }

      When(state: State.ringing(count:)) { _ in
        Execute(output: Output.ring)
      } transitions: { count in
        On(event: Event.press) { Transition(to: State.ringing(count: count + 1)) }
        On(event: Event.silence) { Transition(to: State.quiet) }
      }
    }
  }

  static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime().map(output: Output.ring, to: { Event.silence })
  }
}

/// A machine that is given by a function, and receives the bell's events through a pipe.
enum Porter {
  enum State: MachineState, Equatable { case waiting, called(times: Int) }
  enum Event: MachineEvent { case call }

  static var machine: StateMachine<State, Event, Never> {
    StateMachine(initial: State.waiting) { state, _ in
      if case .called(let times) = state { .called(times: times + 1) } else { .called(times: 1) }
    }
  }
}

/// A feature that counts its actions.
struct CountFeature: FeatureType {
  struct State: Sendable { var count = 0 }
  enum Action: Sendable { case up }

  func reduce(state: State, action: Action) async -> State { State(count: state.count + 1) }
}
