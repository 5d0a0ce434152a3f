import Glibc
import PipeRuntime

/// Counts the received numbers, and the numbers that are out of order.
package enum Sink: Machine {
  package enum State: MachineState, Equatable {
    case counting(last: Int, count: Int, wrong: Int)
  }

  package enum Event: MachineEvent {
    case number(n: Int)
  }

  package struct Parameters: MachineParameters {
    /// The time to process a number. Unit: microseconds.
    package var work = 0
    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("work", work, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.counting(last: 0, count: 0, wrong: 0)) {
      When(state: State.counting(last:count:wrong:)) { _, _, _ in
        Execute.noOutput
      } transitions: { last, count, wrong in
        On(event: Event.number(n:)) { n in
          if parameters.work > 0 { usleep(UInt32(parameters.work)) }
          return Transition(
            to: State.counting(
              last: n, count: count + 1, wrong: n == last + 1 ? wrong : wrong + 1))
        }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().connectAsReceiver(to: ports.pipe("in"))
  }
}
