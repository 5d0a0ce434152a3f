import PipeRuntime

/// The goods of an order. A reservation expires if the order is not committed in time.
package enum Stock: Machine {
  package enum State: MachineState, Hashable {
    case free
    case reserved
    case sold
    /// The order does not know yet that its reservation has expired.
    case expired
    case released
  }

  package enum Event: MachineEvent, Hashable {
    case reserve(order: String)
    case commitOrder(order: String)
    case release(order: String)
  }

  package struct Parameters: MachineParameters {
    /// How long a reservation lasts. Unit: milliseconds.
    package var hold = 900_000
    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("hold", hold, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.free) {
      When(state: State.free) {
        On(event: Event.reserve(order:)) { _ in Transition(to: State.reserved) }
        // An order that is cancelled at once: 'release' has overtaken 'reserve'.
        On(event: Event.release(order:)) { _ in Transition(to: State.released) }
      }
      When(state: State.reserved) {
        On(event: Event.commitOrder(order:)) { _ in Transition(to: State.sold) }
        On(event: Event.release(order:)) { _ in Transition(to: State.released) }
        After(.milliseconds(parameters.hold)) { Transition(to: State.expired) }
      }
      When(state: State.expired) {
        On(event: Event.release(order:)) { _ in Transition(to: State.released) }
      }
    }
  }
}
