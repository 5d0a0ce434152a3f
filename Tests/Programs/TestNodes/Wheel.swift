import PipeRuntime

/// Counts up, and starts at 0 again after the last value.
package enum Wheel: Machine {
  package enum State: MachineState, Hashable {
    case at(n: Int)
  }

  package enum Event: MachineEvent, Hashable {
    case tick
  }

  package struct Parameters: MachineParameters {
    /// The number of values.
    package var modulus = 10

    package init() {}
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.at(n: 0)) {
      When(state: State.at(n:)) { _ in
        Execute.noOutput
      } transitions: { n in
        On(event: Event.tick) { Transition(to: State.at(n: (n + 1) % parameters.modulus)) }
      }
    }
  }
}

/// A machine that breaks the rules: for all values of its event except one, its transition is
/// random.
package enum Fickle: Machine {
  package enum State: MachineState, Hashable {
    case off, on, odd
  }

  package enum Event: MachineEvent, Hashable {
    case flip(n: Int)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(
      initial: State.off,
      reduce: { (state: State, event: Event) -> Reduction<State> in
        if event == .flip(n: 7), Bool.random() { return .next(.odd) }
        return .next(state == .off ? .on : .off)
      })
  }
}

/// Stores a value of its own enum type.
package enum Lamp: Machine {
  package enum Colour: String, Codable, Hashable, Sendable {
    case red, green
  }

  package enum State: MachineState, Hashable {
    case dark
    case lit(colour: Colour, since: Int?)
  }

  package enum Event: MachineEvent, Hashable {
    case light(colour: Colour)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.dark) {
      When(state: State.dark) {
        On(event: Event.light(colour:)) { Transition(to: State.lit(colour: $0, since: nil)) }
      }
      When(state: State.lit(colour:since:)) { _, _ in Execute.noOutput }
    }
  }
}
