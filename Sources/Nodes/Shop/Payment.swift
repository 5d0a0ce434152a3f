import PipeRuntime

/// The payment of an order. An external service charges the customer, once for each order.
package enum Payment: Machine {
  package enum State: MachineState, Hashable {
    case none
    case charging(order: String, amount: Int)
    /// The order was cancelled before the service has answered.
    case cancelling(order: String)
    case charged(order: String)
    case settled
    case refunding(order: String)
    case refunded
    case declined
    /// The order was cancelled before the customer was charged.
    case void
  }

  package enum Event: MachineEvent, Hashable {
    case charge(order: String, amount: Int)
    case charged
    case declined
    case commitOrder(order: String)
    case refund(order: String)
    case refunded
  }

  package enum Output: MachineOutput {
    case charge(order: String, amount: Int)
    case refund(order: String)
  }

  package struct Parameters: MachineParameters {
    /// The TCP port of the payment service on this host.
    package var gateway = 8090
    package init() {}

    package func validate() throws(ParameterMismatch) {
      guard (1...65_535).contains(gateway) else {
        throw ParameterMismatch("gateway", "must be a port from 1 to 65535")
      }
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.none) {
      When(state: State.none) {
        Execute.noOutput
      } transitions: {
        On(event: Event.charge(order:amount:)) { order, amount in
          Transition(to: State.charging(order: order, amount: amount))
        }
        // 'refund' has overtaken 'charge'. A later 'charge' is refused.
        On(event: Event.refund(order:)) { _ in Transition(to: State.void) }
      }
      When(state: State.charging(order:amount:)) { order, amount in
        Execute(output: Output.charge(order: order, amount: amount))
      } transitions: { order, _ in
        On(event: Event.charged) { Transition(to: State.charged(order: order)) }
        On(event: Event.declined) { Transition(to: State.declined) }
        On(event: Event.refund(order:)) { _ in Transition(to: State.cancelling(order: order)) }
      }
      When(state: State.cancelling(order:)) { _ in
        Execute.noOutput
      } transitions: { order in
        On(event: Event.charged) { Transition(to: State.refunding(order: order)) }
        On(event: Event.declined) { Transition(to: State.declined) }
      }
      When(state: State.charged(order:)) { _ in
        Execute.noOutput
      } transitions: { order in
        On(event: Event.commitOrder(order:)) { _ in Transition(to: State.settled) }
        On(event: Event.refund(order:)) { _ in Transition(to: State.refunding(order: order)) }
      }
      When(state: State.refunding(order:)) { order in
        Execute(output: Output.refund(order: order))
      } transitions: { _ in
        On(event: Event.refunded) { Transition(to: State.refunded) }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    let gateway = PaymentGateway(port: parameters.gateway)
    return Runtime()
      .map(
        output: Output.charge(order:amount:),
        to: { order, amount in
          await gateway.charge(order: order, amount: amount).map { $0 ? .charged : .declined }
        },
        gives: .oneOf {
          Event.charged
          Event.declined
        }
      )
      .map(
        output: Output.refund(order:),
        to: { order in await gateway.refund(order: order) ? .refunded : nil },
        gives: .oneOf { Event.refunded })
  }
}
