import PipeRuntime

/// A philosopher, who thinks, and then eats with two forks. One event picks up the two forks, and
/// another event puts them back.
package enum Philosopher: Machine {
  package enum State: MachineState, Hashable {
    case thinking
    case eating
  }

  package enum Event: MachineEvent, Hashable {
    case take
    case release
  }

  package enum Output: MachineOutput {
    case think
    case eat
  }

  package struct Parameters: MachineParameters {
    /// How long the philosopher thinks. Unit: milliseconds.
    package var thought = 500
    /// How long the philosopher eats. Unit: milliseconds.
    package var meal = 500

    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("thought", thought, atLeast: 0)
      try require("meal", meal, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.thinking) {
      When(state: State.thinking) {
        Execute(output: Output.think)
      } transitions: {
        On(event: Event.take) { Transition(to: State.eating) }
      }

      When(state: State.eating) {
        Execute(output: Output.eat)
      } transitions: {
        On(event: Event.release) { Transition(to: State.thinking) }
      }
    }
  }

  package static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<
    State, Event, Output
  > {
    Runtime()
      .map(
        output: Output.think,
        to: {
          if parameters.thought > 0 {
            try? await Task.sleep(for: .milliseconds(parameters.thought))
          }
          return Event.take
        }, gives: .oneOf { Event.take }
      )
      .map(
        output: Output.eat,
        to: {
          if parameters.meal > 0 { try? await Task.sleep(for: .milliseconds(parameters.meal)) }
          return Event.release
        }, gives: .oneOf { Event.release })
  }
}

/// A fork between two philosophers. Only one philosopher at a time can hold it.
package enum Fork: Machine {
  package enum State: MachineState, Hashable {
    case free
    case held
  }

  package enum Event: MachineEvent, Hashable {
    case take
    case release
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.free) {
      When(state: State.free) {
        On(event: Event.take) { Transition(to: State.held) }
      }

      When(state: State.held) {
        On(event: Event.release) { Transition(to: State.free) }
      }
    }
  }
}

/// A view of a philosopher. It has no keys.
package enum PhilosopherView: TerminalView {
  package static func body(_ state: Philosopher.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .thinking: [StyledLine("○ thinking", .dim)]
    case .eating: [StyledLine("● eating", .bold, .color(.green))]
    }
  }
}

/// A view of a fork.
package enum ForkView: TerminalView {
  package static func body(_ state: Fork.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .free: [StyledLine("ψ on the table", .dim)]
    case .held: [StyledLine("ψ in use", .bold)]
    }
  }
}
