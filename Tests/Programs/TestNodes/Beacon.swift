import Glibc
import PipeRuntime

/// Writes to a file continuously, to show that its process lives.
package enum Beacon: Machine {
  package enum State: MachineState, Equatable {
    case lit(count: Int)
  }

  package enum Event: MachineEvent { case next }

  package enum Output: MachineOutput { case shine }

  package struct Parameters: MachineParameters {
    /// The path of the file. Each line contains the node's incarnation and the time since the
    /// computer was booted, in nanoseconds.
    package var log = ""
    /// The pause between two lines. Unit: milliseconds.
    package var pause = 10
    package init() {}
  }

  package static func stateMachine(
    _ parameters: Parameters
  ) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.lit(count: 0)) {
      When(state: State.lit(count:)) { _ in
        Execute(output: Output.shine)
      } transitions: { count in
        On(event: Event.next) { Transition(to: State.lit(count: count + 1)) }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    let name = UInt64.random(in: 1 ... .max)
    return Runtime()
      .map(
        output: Output.shine,
        to: { () -> Event? in
          try? await EffectClock.sleep(for: .milliseconds(parameters.pause))
          var now = timespec()
          clock_gettime(CLOCK_BOOTTIME, &now)
          Ledger.append("\(name) \(now.tv_sec * 1_000_000_000 + now.tv_nsec)", to: parameters.log)
          return .next
        })
  }
}
