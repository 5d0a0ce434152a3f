import PipeRuntime

/// The motor of an elevator. It moves the cabin to the next floor, or to the floor of a call.
package enum ElevatorMotor: Machine {
  package enum State: MachineState {
    case idle(floor: Int)
    case moving(from: Int, to: Int)
    case arrived(floor: Int)
  }

  package enum Event: MachineEvent {
    case start
    case call(floor: Int)
    case floorReached(floor: Int)
    case brakesApplied
  }

  package enum Output: MachineOutput {
    case move(from: Int, to: Int)
    case applyBrakes
  }

  package struct Parameters: MachineParameters {
    /// The number of floors. The next floor after the last floor is the first floor.
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
    StateMachine(initial: State.idle(floor: 0)) {
      When(state: State.idle(floor:)) { _ in
        Execute.noOutput
      } transitions: { floor in
        On(event: Event.start) {
          Transition(to: State.moving(from: floor, to: (floor + 1) % parameters.floors))
        }

        On(event: Event.call(floor:)) { called in
          Guard(predicate: called != floor && (0..<parameters.floors).contains(called))
        } transition: { called in
          Transition(to: State.moving(from: floor, to: called))
        }
      }

      When(state: State.moving(from:to:)) { from, to in
        Execute(output: Output.move(from: from, to: to))
      } transitions: { _, _ in
        On(event: Event.floorReached(floor:)) { floor in
          Transition(to: State.arrived(floor: floor))
        }
      }

      When(state: State.arrived(floor:)) { _ in
        Execute(output: Output.applyBrakes)
      } transitions: { floor in
        On(event: Event.brakesApplied) {
          Transition(to: State.idle(floor: floor))
        }
      }
    }
  }

  package static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<
    State, Event, Output
  > {
    Runtime()
      .map(
        output: Output.move(from:to:),
        to: { from, to in
          try? await Task.sleep(for: .milliseconds(parameters.floorTime * abs(to - from)))
          return Event.floorReached(floor: to)
        }, gives: .oneOf { Event.floorReached(floor:) }
      )
      .map(
        output: Output.applyBrakes,
        to: {
          try? await Task.sleep(for: .milliseconds(parameters.floorTime / 4))
          return Event.brakesApplied
        }, gives: .oneOf { Event.brakesApplied })
  }
}
