import PipeRuntime

/// The motor of a lift. While the motor moves, the door cannot open.
package enum LiftMotor: Machine {
  package enum State: MachineState, Hashable {
    case standing(floor: Int)
    case moving(from: Int, to: Int)
    case stopped(floor: Int)
  }

  package enum Event: MachineEvent, Hashable {
    case open
    case go(floor: Int)
    case floorReached
    case emergencyStop
    case reset
  }

  package enum Output: MachineOutput {
    case move(floors: Int)
  }

  package struct Parameters: MachineParameters {
    /// The number of floors.
    package var floors = 5
    /// The time that the motor needs for one floor. Unit: milliseconds.
    package var floorTime = 1_000

    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("floors", floors, atLeast: 1)
      try require("floorTime", floorTime, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.standing(floor: 0)) {
      When(state: State.standing(floor:)) { floor in
        On(event: Event.open) { Transition(to: State.standing(floor: floor)) }

        On(event: Event.go(floor:)) { called in
          Guard(predicate: called != floor && (0..<parameters.floors).contains(called))
        } transition: { called in
          Transition(to: State.moving(from: floor, to: called))
        }

        On(event: Event.emergencyStop) { Transition(to: State.stopped(floor: floor)) }
      }

      When(state: State.moving(from:to:)) { from, to in
        Execute(output: Output.move(floors: abs(to - from)))
      } transitions: { from, to in
        On(event: Event.floorReached) { Transition(to: State.standing(floor: to)) }
        On(event: Event.emergencyStop) { Transition(to: State.stopped(floor: from)) }
      }

      When(state: State.stopped(floor:)) { floor in
        On(event: Event.reset) { Transition(to: State.standing(floor: floor)) }
      }
    }
  }

  package static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<
    State, Event, Output
  > {
    Runtime().map(
      output: Output.move(floors:),
      to: { floors in
        try? await Task.sleep(for: .milliseconds(parameters.floorTime) * floors)
        return Event.floorReached
      }, gives: .oneOf { Event.floorReached },
      strategy: .cancelWhenAnyState)
  }
}
