import PipeRuntime

/// A vending machine. After each coin, the machine says whether the user must insert more coins.
/// Then it drops the goods that the user chooses.
package enum VendingMachine: Machine {
  package enum State: MachineState, Hashable {
    case idle
    case coins
    case waitingChoice
    case dropping
  }

  package enum Event: MachineEvent, Hashable {
    case showAvailable
    case insert
    /// The machine's answer to a coin. `more` says whether another coin is required.
    case showPurchasable(more: Bool)
    case choose
    case drop
  }

  package enum Output: MachineOutput {
    case weighCoin
    case drop
  }

  package struct Parameters: MachineParameters {
    /// The average number of coins that a purchase requires. The actual number depends on the
    /// weight of the coins.
    package var price = 2
    /// How long each action of the machine takes. Unit: milliseconds.
    package var pace = 200

    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("price", price, atLeast: 1)
      try require("pace", pace, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.idle) {
      When(state: State.idle) {
        On(event: Event.showAvailable) { Transition(to: State.idle) }
        On(event: Event.insert) { Transition(to: State.coins) }
      }

      When(state: State.coins) {
        Execute(output: Output.weighCoin)
      } transitions: {
        On(event: Event.showPurchasable(more:)) { _ in Transition(to: State.waitingChoice) }
      }

      When(state: State.waitingChoice) {
        On(event: Event.insert) { Transition(to: State.coins) }
        On(event: Event.choose) { Transition(to: State.dropping) }
      }

      When(state: State.dropping) {
        Execute(output: Output.drop)
      } transitions: {
        On(event: Event.drop) { Transition(to: State.idle) }
      }
    }
  }

  package static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<
    State, Event, Output
  > {
    Runtime()
      .map(
        output: Output.weighCoin,
        to: {
          try? await Task.sleep(for: .milliseconds(parameters.pace))
          return Event.showPurchasable(more: Int.random(in: 0..<parameters.price) > 0)
        }, gives: .oneOf { Event.showPurchasable(more:) }
      )
      .map(
        output: Output.drop,
        to: {
          try? await Task.sleep(for: .milliseconds(parameters.pace))
          return Event.drop
        }, gives: .oneOf { Event.drop })
  }
}
