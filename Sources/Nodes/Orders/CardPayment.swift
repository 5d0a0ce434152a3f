import PipeRuntime

/// The payment for an order by card. A payment is captured together with the order that it pays
/// for.
package enum CardPayment: Machine {
  package enum State: MachineState, Hashable {
    case none
    case authorized(amount: Int)
    case captured(amount: Int)
  }

  package enum Event: MachineEvent, Hashable {
    case authorize(order: String, amount: Int)
    case pay(order: String)
    case void(order: String)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.none) {
      When(state: State.none) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.authorize(order:amount:)) { _, amount in
          Guard(predicate: amount > 0)
        } transition: { _, amount in
          Transition(to: State.authorized(amount: amount))
        }
      }
      When(state: State.authorized(amount:)) { _ in
        Execute.noOutput
      } transitions: { amount in
        On(event: Event.pay(order:)) { _ in Transition(to: State.captured(amount: amount)) }
        On(event: Event.void(order:)) { _ in Transition(to: State.none) }
      }
    }
  }
}
