import Glibc
import PipeRuntime

/// An offer that expires if no client accepts it in time. Counts how often it has expired.
package enum Offer: Machine {
  package enum State: MachineState, Equatable {
    case idle(expired: Int)
    case open(limit: Int, expired: Int)
    /// The timer of this state ends the process.
    case doomed
  }

  package enum Event: MachineEvent {
    /// Opens the offer. Unit of `limit`: milliseconds.
    case open(key: String, limit: Int)
    case accept(key: String)
    case doom(key: String)
  }

  package struct Parameters: MachineParameters {
    /// The path of a file. If the file exists, the timer of `doomed` does not end the process.
    package var net = ""
    package init() {}
  }

  package static func stateMachine(
    _ parameters: Parameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.idle(expired: 0)) {
      When(state: State.idle) { expired in
        On(event: Event.open) { _, limit in Transition(to: .open(limit: limit, expired: expired)) }
        On(event: Event.doom) { _ in Transition(to: .doomed) }
      }
      When(state: State.open) { limit, expired in
        On(event: Event.accept) { _ in Transition(to: .idle(expired: expired)) }
        After(.milliseconds(limit)) { Transition(to: .idle(expired: expired + 1)) }
      }
      When(state: State.doomed) {
        On(event: Event.accept) { _ in Transition(to: .idle(expired: 0)) }
        After(.zero) {
          if access(parameters.net, F_OK) != 0 { abort() }
          return Transition(to: .idle(expired: 1))
        }
      }
    }
  }
}

/// A reservation with a reminder, and with a later timer that the reminder always cancels.
package enum Reservation: Machine {
  package enum State: MachineState, Equatable { case free, held, reminded, lapsed }

  package enum Event: MachineEvent { case hold, release }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.free) {
      When(state: .free) { On(event: Event.hold) { Transition(to: .held) } }
      When(state: .held) {
        On(event: .release) { Transition(to: .free) }
        After(.seconds(30)) { Transition(to: .lapsed) }
        After(.seconds(20)) { Transition(to: .reminded) }
      }
      When(state: .reminded) {
        On(event: .release) { Transition(to: .free) }
        After(.seconds(5)) { Transition(to: .lapsed) }
      }
    }
  }
}
