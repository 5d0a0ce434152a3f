import PipeRuntime

/// Waits for a token from each leaf, and then sends a token to each leaf.
enum Hub: Machine {
  enum State: MachineState {
    case starting
    case gathering(count: Int)
    case telling
  }

  typealias Event = Juggler.Event

  struct Parameters: MachineParameters {
    /// The number of leaves. Each leaf has an out-port: `out1`, `out2`, ….
    var leaves = 1
    /// The number of tokens with which each leaf starts.
    var tokens = 1
  }

  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.starting) {
      When(
        states: OneOf {
          State.starting; State.telling
        }
      ) {
        Execute.noOutput
      } transitions: {
        On(event: Event.token) { Transition(to: following(1, parameters)) }
      }

      When(state: State.gathering(count:)) { _ in
        Execute.noOutput
      } transitions: { count in
        On(event: Event.token) { Transition(to: following(count + 1, parameters)) }
      }
    }
  }

  private static func following(_ count: Int, _ parameters: Parameters) -> State {
    count == parameters.leaves ? .telling : .gathering(count: count)
  }

  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Never> {
    var runtime = Runtime<State, Event, Never>().connectAsReceiver(to: ports.pipe("in"))
    for leaf in 1...parameters.leaves {
      let pipe: Pipe<Event> = ports.pipe("out\(leaf)")
      for _ in 0..<parameters.tokens {
        runtime = runtime.connectAsSender(to: pipe, when: State.starting, send: Event.token)
      }
      runtime = runtime.connectAsSender(to: pipe, when: State.telling, send: Event.token)
    }
    return runtime
  }
}
