import PipeRuntime

/// The parcel of an order. Packing takes some time.
package enum Shipping: Machine {
  package enum State: MachineState, Hashable { case waiting, packing, sent }

  package enum Event: MachineEvent, Hashable {
    case pack(order: String)
    case packed
  }

  package enum Output: MachineOutput { case pack }

  package struct Parameters: MachineParameters {
    /// How long packing takes. Unit: milliseconds.
    package var time = 1_000
    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("time", time, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.waiting) {
      When(state: State.waiting) {
        Execute.noOutput
      } transitions: {
        On(event: Event.pack(order:)) { _ in Transition(to: State.packing) }
      }
      When(state: State.packing) {
        Execute(output: Output.pack)
      } transitions: {
        On(event: Event.packed) { Transition(to: State.sent) }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime().map(
      output: Output.pack,
      to: { () -> Event? in
        do { try await EffectClock.sleep(for: .milliseconds(parameters.time)) } catch { return nil }
        return .packed
      }, gives: .oneOf { Event.packed })
  }
}
