import PipeRuntime

/// A payment that a customer must make within a time limit. After a reminder, the customer has some
/// more time.
package enum Payment: Machine {
  package enum State: MachineState, Hashable {
    case new
    case requested
    case reminded
    case paid
    case expired
  }

  package enum Event: MachineEvent, Hashable {
    case request
    case pay
  }

  package struct Parameters: MachineParameters {
    /// The time from the request to the reminder. Unit: seconds.
    package var limit = 30
    /// The time from the reminder until the payment expires. Unit: seconds.
    package var grace = 10
    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("limit", limit, atLeast: 0)
      try require("grace", grace, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.new) {
      When(state: State.new) { On(event: Event.request) { Transition(to: State.requested) } }
      When(state: State.requested) {
        On(event: Event.pay) { Transition(to: State.paid) }
        After(.seconds(parameters.limit)) { Transition(to: State.reminded) }
      }
      When(state: State.reminded) {
        On(event: Event.pay) { Transition(to: State.paid) }
        After(.seconds(parameters.grace)) { Transition(to: State.expired) }
      }
    }
  }
}

/// Goods that are held for a payment, and then sold or returned to the shelf.
package enum Goods: Machine {
  package enum State: MachineState, Hashable { case available, held, sold }
  package enum Event: MachineEvent, Hashable { case hold, sell, `return` }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.available) {
      When(state: State.available) { On(event: Event.hold) { Transition(to: State.held) } }
      When(state: State.held) {
        On(event: Event.sell) { Transition(to: State.sold) }
        On(event: Event.return) { Transition(to: State.available) }
      }
    }
  }
}
