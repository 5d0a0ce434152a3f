import PipeRuntime

enum TrafficLight: Machine {
  enum State: MachineState { case red, green(cars: Int) }
  enum Event: MachineEvent { case timeIsUp, carPassed }

  static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.red) {
      When(state: State.red) {
        Execute.noOutput
      } transitions: {
        On(event: Event.timeIsUp) { Transition(to: State.green(cars: 0)) }
      }
      When(state: State.green(cars:)) { _ in
        Execute.noOutput
      } transitions: { cars in
        On(event: Event.timeIsUp) { Transition(to: State.red) }
        On(event: Event.carPassed) { Transition(to: State.green(cars: cars + 1)) }
      }
    }
  }
}
