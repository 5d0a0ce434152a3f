import PipeRuntime

/// A person at a vending machine, who looks, inserts coins one by one, chooses, and waits for the
/// goods.
package enum VendingUser: Machine {
  package enum State: MachineState, Hashable {
    case idle
    case gonnaBuy
    case paying
    case choosing
    case waiting
  }

  package enum Event: MachineEvent, Hashable {
    /// An internal event of the person (τ in CSP). The vending machine does not participate in it.
    case tau
    case showAvailable
    case insert
    /// The machine's answer to a coin. `more` says whether another coin is required.
    case showPurchasable(more: Bool)
    case choose
    case drop
  }

  package enum Output: MachineOutput {
    case look
    case insert
    case choose
  }

  package struct Parameters: MachineParameters {
    /// How long each action of the person takes. Unit: milliseconds.
    package var pace = 500

    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("pace", pace, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.idle) {
      When(state: State.idle) {
        Execute(output: Output.look)
      } transitions: {
        On(event: Event.tau) { Transition(to: State.idle) }
        On(event: Event.showAvailable) { Transition(to: State.gonnaBuy) }
      }

      When(state: State.gonnaBuy) {
        Execute(output: Output.insert)
      } transitions: {
        On(event: Event.insert) { Transition(to: State.paying) }
      }

      When(state: State.paying) {
        On(event: Event.showPurchasable(more:)) { more in
          Transition(to: more ? State.gonnaBuy : State.choosing)
        }
      }

      When(state: State.choosing) {
        Execute(output: Output.choose)
      } transitions: {
        On(event: Event.choose) { Transition(to: State.waiting) }
      }

      When(state: State.waiting) {
        On(event: Event.drop) { Transition(to: State.idle) }
      }
    }
  }

  package static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<
    State, Event, Output
  > {
    @Sendable func pause() async {
      try? await Task.sleep(for: .milliseconds(parameters.pace))
    }
    return Runtime()
      .map(
        output: Output.look,
        to: {
          await pause()
          return Event.showAvailable
        }, gives: .oneOf { Event.showAvailable },
        // The runtime cancels this effect whenever the machine enters a state. After a `tau` event,
        // the machine enters `idle` again, and the person looks again.
        strategy: .cancelWhenAnyState
      )
      .map(
        output: Output.insert,
        to: {
          await pause()
          return Event.insert
        }, gives: .oneOf { Event.insert }
      )
      .map(
        output: Output.choose,
        to: {
          await pause()
          return Event.choose
        }, gives: .oneOf { Event.choose })
  }
}

/// A view of a vending machine.
package enum VendingView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 24, rows: 3)

  package static func body(_ state: VendingMachine.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .idle: [StyledLine("insert a coin", .dim)]
    case .coins: [StyledLine("weighing the coin…", .color(.yellow))]
    case .waitingChoice: [StyledLine("choose", .bold), StyledLine("or insert another coin", .dim)]
    case .dropping: [StyledLine("dropping…", .color(.green))]
    }
  }
}

/// A view of the person. The key t sends a `tau` event.
package enum VendingUserView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 28, rows: 3)

  package static func body(_ state: VendingUser.State, size: TerminalSize) -> [StyledLine] {
    let steps: [(VendingUser.State, String)] = [
      (.idle, "looks"), (.gonnaBuy, "takes a coin"), (.paying, "pays"), (.choosing, "chooses"),
      (.waiting, "waits for the goods"),
    ]
    let currentText = steps.first { $0.0 == state }?.1 ?? ""
    return [StyledLine(currentText, .bold), "", StyledLine("t thinks of something else", .dim)]
  }

  package static func event(for key: Key, in state: VendingUser.State) -> VendingUser.Event? {
    key == .character("t") && state == .idle ? .tau : nil
  }
}
