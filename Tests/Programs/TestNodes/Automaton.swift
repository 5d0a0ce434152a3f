import PipeRuntime

/// A machine whose transitions are parameters, for models with known results.
package enum Automaton: Machine {
  package enum State: MachineState, Hashable {
    case at(place: String)
    /// A state whose entry sends in many topologies.
    case sending
  }

  package enum Event: MachineEvent, Hashable {
    case x
    case y
    case z
    case sync
    case tau
    case getLeft
    case getRight
    case putLeft
    case putRight
    case eat
    case showAvailable
    case insert
    case showPurchasable(more: Bool)
    case choose
    case drop
    case word(text: String)
  }

  package struct Parameters: MachineParameters {
    package var start = "0"
    /// Transitions as `FROM EVENT TO`. An event with a value is `showPurchasable.true`, or
    /// `word.TEXT`. `sending` is the state of that name.
    package var steps: [String] = []

    package init() {}
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    var targets: [String: State] = [:]
    for step in parameters.steps {
      let words = step.split(separator: " ").map(String.init)
      targets["\(words[0]) \(words[1])"] = state(words[2])
    }
    let known = targets
    return StateMachine(
      initial: state(parameters.start),
      reduce: { (state: State, event: Event) -> Reduction<State> in
        known["\(place(of: state)) \(word(of: event))"].map { .next($0) } ?? .refused(.noTransition)
      })
  }

  private static func state(_ place: String) -> State {
    place == "sending" ? .sending : .at(place: place)
  }

  private static func place(of state: State) -> String {
    switch state {
    case .at(let place): place
    case .sending: "sending"
    }
  }

  private static func word(of event: Event) -> String {
    switch event {
    case .showPurchasable(let more): return "showPurchasable.\(more)"
    case .word(let text): return "word.\(text)"
    default: return "\(event)"
    }
  }
}

/// Moves to unpredictable states.
package enum Moody: Machine {
  package enum State: MachineState, Hashable {
    case calm
    case mood(number: UInt64)
  }

  package enum Event: MachineEvent, Hashable {
    case ask
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.calm) {
      When(state: State.calm) {
        On(event: Event.ask) { Transition(to: State.mood(number: .random(in: 0..<1 << 62))) }
      }
      When(state: State.mood(number:)) { _ in Execute.noOutput }
    }
  }
}
