import PipeMachines

/// A machine that counts its synchronized events and its own events.
enum Pair {
  enum State: MachineState, Hashable {
    case open(joint: Int, own: Int)
    case closed(joint: Int, own: Int)

    var joint: Int {
      switch self {
      case .open(let joint, _), .closed(let joint, _): joint
      }
    }
  }

  enum Event: MachineEvent, Hashable {
    case joint, own, open, close
    /// An event with an asynchronous transition.
    case slow
    /// Accepted only with a payload that is not negative.
    case add(number: Int)
  }

  enum Output: MachineOutput { case isClosed }

  static var machine: StateMachine<State, Event, Output> {
    StateMachine(initial: State.open(joint: 0, own: 0)) {
      When(state: State.open(joint:own:)) { _, _ in
        Execute.noOutput
      } transitions: { joint, own in
        On(event: Event.joint) { Transition(to: State.open(joint: joint + 1, own: own)) }
        On(event: Event.own) { Transition(to: State.open(joint: joint, own: own + 1)) }
        On(event: Event.close) { Transition(to: State.closed(joint: joint, own: own)) }
        On(event: Event.slow) {
          await Task.yield()
          return Transition(to: State.open(joint: joint + 1, own: own))
        }
        .selfContained(within: .seconds(600))
        On(event: Event.add(number:)) { number in
          Guard(predicate: number >= 0)
        } transition: { number in
          Transition(to: State.open(joint: joint + number, own: own))
        }
      }
      When(state: State.closed(joint:own:)) { _, _ in
        Execute(output: Output.isClosed)
      } transitions: { joint, own in
        On(event: Event.open) { Transition(to: State.open(joint: joint, own: own)) }
      }
    }
  }

  static func component(
    _ name: String, runtime: Runtime<State, Event, Output> = Runtime()
  ) -> CompositeComponent<State, Event> {
    CompositeComponent(name, stateMachine: machine, runtime: runtime)
  }

  static let synchronize: [Synchronization] = ["joint", "slow", "add"]
}
