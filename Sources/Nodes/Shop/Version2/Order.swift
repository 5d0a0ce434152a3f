import PipeRuntime
import Shop

/// Version 2 of the machine `Order`: a customer gets points for an order.
package enum Order: Machine {
  package static let schema = 2
  package static let migrations = [
    Migration(from: 1) { (old: Shop.Order.State) -> State in
      switch old {
      case .new: .new
      case .placed(let amount): .placed(amount: amount, points: points(for: amount))
      case .reserved(let amount): .reserved(amount: amount, points: points(for: amount))
      case .committed(let amount): .committed(amount: amount, points: points(for: amount))
      case .shipped(let amount): .shipped(amount: amount, points: points(for: amount))
      case .cancelled: .cancelled
      }
    }
  ]

  /// Returns the points for an amount: one for every ten.
  static func points(for amount: Int) -> Int { amount / 10 }

  package enum State: MachineState, Hashable {
    case new
    case placed(amount: Int, points: Int)
    /// The goods are reserved, and the customer is being charged.
    case reserved(amount: Int, points: Int)
    case committed(amount: Int, points: Int)
    case shipped(amount: Int, points: Int)
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
          Transition(to: State.placed(amount: amount, points: points(for: amount)))
        }
      }
      When(state: State.placed(amount:points:)) { amount, points in
        On(event: Event.goodsReserved(order:)) { _ in
          Transition(to: State.reserved(amount: amount, points: points))
        }
        On(event: Event.cancel(order:)) { _ in Transition(to: State.cancelled) }
      }
      When(state: State.reserved(amount:points:)) { amount, points in
        On(event: Event.commitOrder(order:)) { _ in
          Transition(to: State.committed(amount: amount, points: points))
        }
        On(event: Event.cancel(order:)) { _ in Transition(to: State.cancelled) }
      }
      When(state: State.committed(amount:points:)) { amount, points in
        On(event: Event.parcelSent(order:)) { _ in
          Transition(to: State.shipped(amount: amount, points: points))
        }
      }
    }
  }
}
