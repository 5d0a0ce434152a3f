import PipeRuntime

/// Passes each token to one of its out-ports, in rotation.
enum Juggler: Machine {
  enum State: MachineState, CaseIterable {
    case starting
    case first
    case second
    case third
  }

  enum Event: MachineEvent { case token }

  struct Parameters: MachineParameters {
    /// The number of out-ports: `out1`, `out2`, …. Range: 1…3.
    var outs = 1
    /// The number of tokens that the machine sends to its first out-port at the start.
    var tokens = 0
  }

  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.starting) {
      When(state: State.starting) {
        On(event: Event.token) { Transition(to: State.first) }
      }

      When(state: State.first) {
        On(event: Event.token) {
          Transition(to: parameters.outs > 1 ? State.second : State.first)
        }
      }

      When(state: State.second) {
        On(event: Event.token) {
          Transition(to: parameters.outs > 2 ? State.third : State.first)
        }
      }

      When(state: State.third) {
        On(event: Event.token) { Transition(to: State.first) }
      }
    }
  }

  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Never> {
    var runtime = Runtime<State, Event, Never>().connectAsReceiver(to: ports.pipe("in"))
    for _ in 0..<parameters.tokens {
      runtime = runtime.connectAsSender(
        to: ports.pipe("out1"), when: State.starting, send: Event.token)
    }
    for (index, state) in State.allCases.dropFirst().prefix(parameters.outs).enumerated() {
      runtime = runtime.connectAsSender(
        to: ports.pipe("out\(index + 1)"), when: state, send: Event.token)
    }
    return runtime
  }
}
