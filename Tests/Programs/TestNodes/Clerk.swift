import PipeRuntime

/// Runs an effect that writes its idempotency key to a file. The file stands in for an external
/// service, such as a bank.
package enum Clerk: Machine {
  package enum State: MachineState, Equatable {
    case idle(paid: Int)
    case paying(paid: Int)
  }

  package enum Event: MachineEvent {
    case pay
    case done
  }

  package enum Output: MachineOutput { case transfer }

  package struct Parameters: MachineParameters {
    /// The path of the file. Each run of the effect adds a line.
    package var ledger = ""
    /// The duration of a transfer. Unit: milliseconds.
    package var time = 0
    package init() {}
  }

  package static func stateMachine(
    _ parameters: Parameters
  ) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.idle(paid: 0)) {
      When(state: State.idle(paid:)) { _ in
        Execute.noOutput
      } transitions: { paid in
        On(event: Event.pay) { Transition(to: State.paying(paid: paid)) }
      }
      When(state: State.paying(paid:)) { _ in
        Execute(output: Output.transfer)
      } transitions: { paid in
        On(event: Event.done) { Transition(to: State.idle(paid: paid + 1)) }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime()
      .map(
        output: Output.transfer,
        to: { () -> Event? in
          Ledger.append(IdempotencyKey.current?.description ?? "no key", to: parameters.ledger)
          try? await EffectClock.sleep(for: .milliseconds(parameters.time))
          return .done
        })
  }
}
