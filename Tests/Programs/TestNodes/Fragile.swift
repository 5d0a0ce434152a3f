import Glibc
import PipeRuntime

/// Crashes, hangs or writes output on request.
package enum Fragile: Machine {
  package enum State: MachineState, Equatable {
    case well(steps: Int)
  }

  package enum Event: MachineEvent {
    case touch
    /// Exits with this code.
    case exit(code: Int)
    /// Ends the process by a trap.
    case trap
    /// Never returns from the step.
    case hang
    /// Writes this number of lines.
    case shout(lines: Int)
  }

  package struct Parameters: MachineParameters {
    /// Whether the process ends immediately after its start.
    package var diesAtStart = false
    package init() {}
  }

  package enum Output: MachineOutput {
    case live
  }

  package static func stateMachine(
    _ parameters: Parameters
  ) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.well(steps: 0)) {
      When(state: State.well(steps:)) { _ in
        Execute(output: Output.live)
      } transitions: { steps in
        On(event: Event.touch) { Transition(to: State.well(steps: steps + 1)) }
        On(event: Event.exit(code:)) { code in exit(code) }
        On(event: Event.trap) { trap() }
        On(event: Event.hang) { hang() }
        On(event: Event.shout(lines:)) { lines in
          for line in 1...max(1, lines) { print("line \(line)") }
          return Transition(to: State.well(steps: steps + 1))
        }
      }
    }
  }

  private static func exit(_ code: Int) -> Transition<State> { Glibc.exit(Int32(code)) }
  private static func trap() -> Transition<State> { abort() }
  private static func hang() -> Transition<State> { while true { sleep(1) } }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime()
      .map(
        output: Output.live,
        to: { () -> Event? in
          if parameters.diesAtStart { _exit(9) }
          return nil
        })
  }
}
