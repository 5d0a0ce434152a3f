import PipeRuntime

/// The passengers of an elevator, who wait, board and ride in a loop. They keep the elevator busy
/// without events from outside.
package enum Passengers: Machine {
  package enum State: MachineState {
    case waiting(round: Int)
    case boarding(persons: Int, round: Int)
    case riding(round: Int)
  }

  package enum Event: MachineEvent {
    case doorSeenOpen
    case allAboard
    case arrived
  }

  package enum Output: MachineOutput {
    case walkToDoor
    case board
  }

  package struct Parameters: MachineParameters {
    /// How long the passengers wait, and how long they board. Unit: milliseconds.
    package var pace = 1_000

    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("pace", pace, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.waiting(round: 1)) {
      When(state: State.waiting(round:)) { _ in
        Execute(output: Output.walkToDoor)
      } transitions: { round in
        On(event: Event.doorSeenOpen) {
          Transition(to: State.boarding(persons: 1 + round * 3 % 8, round: round))
        }
      }

      When(state: State.boarding(persons:round:)) { _, _ in
        Execute(output: Output.board)
      } transitions: { _, round in
        On(event: Event.allAboard) {
          Transition(to: State.riding(round: round))
        }
      }

      When(state: State.riding(round:)) { _ in
        Execute.noOutput
      } transitions: { round in
        On(event: Event.arrived) {
          Transition(to: State.waiting(round: round + 1))
        }
      }
    }
  }

  package static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<
    State, Event, Output
  > {
    Runtime()
      .map(
        output: Output.walkToDoor,
        to: {
          try? await Task.sleep(for: .milliseconds(parameters.pace))
          return Event.doorSeenOpen
        }, gives: .oneOf { Event.doorSeenOpen }
      )
      .map(
        output: Output.board,
        to: {
          try? await Task.sleep(for: .milliseconds(parameters.pace))
          return Event.allAboard
        }, gives: .oneOf { Event.allAboard })
  }
}
