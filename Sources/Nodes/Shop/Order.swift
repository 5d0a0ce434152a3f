import PipeRuntime

/// An order of a customer. The node `orders` has one instance for each order.
package enum Order: Machine {
  package enum State: MachineState, Hashable {
    case new
    case placed(amount: Int)
    /// The goods are reserved, and the customer is being charged.
    case reserved(amount: Int)
    case committed(amount: Int)
    case shipped(amount: Int)
    case cancelled
  }

  package enum Event: MachineEvent, Hashable {
    case place(order: String, amount: Int)
    case goodsReserved(order: String)
    /// The synchronized event of the order, its payment and its goods.
    case commitOrder(order: String)
    case parcelSent(order: String)
    case cancel(order: String)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.new) {
      When(state: State.new) {
        On(event: Event.place(order:amount:)) { _, amount in
          Guard(predicate: amount > 0)
        } transition: { _, amount in
          Transition(to: State.placed(amount: amount))
        }
      }
      When(state: State.placed(amount:)) { amount in
        On(event: Event.goodsReserved(order:)) { _ in
          Transition(to: State.reserved(amount: amount))
        }
        On(event: Event.cancel(order:)) { _ in Transition(to: State.cancelled) }
      }
      When(state: State.reserved(amount:)) { amount in
        On(event: Event.commitOrder(order:)) { _ in
          Transition(to: State.committed(amount: amount))
        }
        On(event: Event.cancel(order:)) { _ in Transition(to: State.cancelled) }
      }
      When(state: State.committed(amount:)) { amount in
        On(event: Event.parcelSent(order:)) { _ in
          Transition(to: State.shipped(amount: amount))
        }
      }
    }
  }
}
