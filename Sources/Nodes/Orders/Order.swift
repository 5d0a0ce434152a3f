import PipeRuntime

/// An order in a shop. A node with `key: order` has one instance for each order.
package enum Order: Machine {
  package enum State: MachineState, Hashable {
    case new
    case placed(amount: Int)
    case paid(amount: Int)
    case shipped(amount: Int)
    case cancelled
  }

  package enum Event: MachineEvent, Hashable {
    case place(order: String, amount: Int)
    case pay(order: String)
    case ship(order: String)
    case cancel(order: String)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.new) {
      When(state: State.new) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.place(order:amount:)) { _, amount in
          Guard(predicate: amount > 0)
        } transition: { _, amount in
          Transition(to: State.placed(amount: amount))
        }
      }
      When(state: State.placed(amount:)) { _ in
        Execute.noOutput
      } transitions: { amount in
        On(event: Event.pay(order:)) { _ in Transition(to: State.paid(amount: amount)) }
        On(event: Event.cancel(order:)) { _ in Transition(to: State.cancelled) }
      }
      When(state: State.paid(amount:)) { _ in
        Execute.noOutput
      } transitions: { amount in
        On(event: Event.ship(order:)) { _ in Transition(to: State.shipped(amount: amount)) }
      }
    }
  }
}

/// The shipment of an order. Packing takes some time.
package enum Shipment: Machine {
  package enum State: MachineState, Hashable {
    case waiting
    case packing
    case sent
  }

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
      When(state: State.waiting) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.pack(order:)) { _ in Transition(to: State.packing) }
      }
      When(state: State.packing) { _ in
        Execute(output: Output.pack)
      } transitions: { _ in
        On(event: Event.packed) { _ in Transition(to: State.sent) }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime().map(output: Output.pack) { () -> Event? in
      do { try await EffectClock.sleep(for: .milliseconds(parameters.time)) } catch { return nil }
      return .packed
    }
  }
}
