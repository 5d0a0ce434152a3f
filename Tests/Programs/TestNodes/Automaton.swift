import PipeRuntime

/// A machine whose transitions are parameters. Tests use it for models with known results.
package enum Automaton: Machine {
  package enum State: MachineState, Hashable {
    case at(place: String)
    /// A state on whose entry a pipe sends an event, in many topologies.
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
    /// The transitions, each as `FROM EVENT TO`. The text `sending` stands for the state `sending`.
    /// Events with values are written as `showPurchasable.true` or `word.TEXT`. The text `ignore`
    /// ignores the event, and `stay.PLACE` changes the place by an internal transition.
    package var steps: [String] = []

    package init() {}
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    var targets: [String: Reduction<State>] = [:]
    for step in parameters.steps {
      let words = step.split(separator: " ").map(String.init)
      targets["\(words[0]) \(words[1])"] = reduction(words[2])
    }
    let known = targets
    return StateMachine(
      initial: state(parameters.start),
      reduce: { (state: State, event: Event) -> Reduction<State> in
        known["\(place(of: state)) \(word(of: event))"] ?? .refused(.noTransition)
      })
  }

  private static func reduction(_ target: String) -> Reduction<State> {
    if target == "ignore" { return .ignored }
    let prefix = "stay."
    return target.hasPrefix(prefix)
      ? .stays(state(String(target.dropFirst(prefix.count)))) : .next(state(target))
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

/// A machine that breaks the rules: its transition leads to a random state.
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
