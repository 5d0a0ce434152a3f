import Glibc
import PipeRuntime

/// Bakes until a file exists. The temperature changes by internal transitions while it bakes.
package enum Oven: Machine {
  package enum State: MachineState, Equatable {
    case off(baked: Int)
    case baking(degrees: Int, baked: Int)
  }

  package enum Event: MachineEvent {
    case bake(oven: String)
    case heat(oven: String, by: Int)
    case knock(oven: String)
    case baked
  }

  package enum Output: MachineOutput { case bake }

  package struct Parameters: MachineParameters {
    /// The file to which each run of the effect appends its idempotency key. The effect ends when
    /// another file with this name and the suffix `.done` exists.
    package var ledger = ""
    package init() {}
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.off(baked: 0)) {
      When(state: State.off(baked:)) { _ in
        Execute.noOutput
      } transitions: { baked in
        On(event: Event.bake(oven:)) { _ in
          Transition(to: State.baking(degrees: 0, baked: baked))
        }
        Ignore(event: Event.knock(oven:))
      }
      When(state: State.baking(degrees:baked:)) { _, _ in
        Execute(output: Output.bake)
      } transitions: { degrees, baked in
        On(event: Event.heat(oven:by:)) { _, by in
          Stay { State.baking(degrees: degrees + by, baked: baked) }
        }
        On(event: Event.baked) { Transition(to: State.off(baked: baked + 1)) }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime().map(
      output: Output.bake,
      to: { () -> Event? in
        Ledger.append(IdempotencyKey.current?.description ?? "none", to: parameters.ledger)
        while access(parameters.ledger + ".done", F_OK) != 0 {
          do { try await Task.sleep(for: .milliseconds(5)) } catch { return nil }
        }
        return .baked
      }, strategy: .cancelWhenAnyState)
  }
}
