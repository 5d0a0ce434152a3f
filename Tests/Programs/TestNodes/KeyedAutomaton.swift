import PipeRuntime

/// An automaton whose events carry a key. Tests use it as the machine of nodes with instances.
package enum KeyedAutomaton: Machine {
  package enum State: MachineState, Hashable {
    case at(place: String)
    /// A state on whose entry a pipe sends an event, in many topologies.
    case sending
    /// A state with an effect.
    case working
  }

  package enum Event: MachineEvent, Hashable {
    case x(id: String)
    case y(id: String)
    case z(id: String)
    case number(place: Int)
    case done
    case found(id: String)
  }

  package enum Output: MachineOutput { case work }

  package struct Parameters: MachineParameters {
    package var start = "0"
    /// The transitions, each as `FROM EVENT TO`. `x` stands for the event with any key, and `x.b` for
    /// the event with the key `b`. The target `ignore` means that the state ignores the event.
    package var steps: [String] = []

    package init() {}
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    var targets: [String: State] = [:]
    for step in parameters.steps {
      let words = step.split(separator: " ").map(String.init)
      targets["\(words[0]) \(words[1])"] = state(words[2])
    }
    let known = targets
    let ignored = Set(
      parameters.steps.map { $0.split(separator: " ").map(String.init) }.filter {
        $0[2] == "ignore"
      }.map { "\($0[0]) \($0[1])" })
    return StateMachine(
      initial: state(parameters.start),
      reduce: { (state: State, event: Event) -> Reduction<State> in
        let (label, key) = word(of: event)
        let place = place(of: state)
        if ignored.contains("\(place) \(label)") { return .ignored }
        let target = key.flatMap { known["\(place) \(label).\($0)"] } ?? known["\(place) \(label)"]
        return target.map { .next($0) } ?? .refused(.noTransition)
      },
      output: { if case .working = $0 { .work } else { nil } })
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime().map(output: Output.work) { () -> Event? in .done }
  }

  private static func state(_ place: String) -> State {
    switch place {
    case "sending": .sending
    case "working": .working
    default: .at(place: place)
    }
  }

  private static func place(of state: State) -> String {
    switch state {
    case .at(let place): place
    case .sending: "sending"
    case .working: "working"
    }
  }

  private static func word(of event: Event) -> (label: String, key: String?) {
    switch event {
    case .x(let id): ("x", id)
    case .y(let id): ("y", id)
    case .z(let id): ("z", id)
    case .found(let id): ("found", id)
    case .number(let place): ("number", "\(place)")
    case .done: ("done", nil)
    }
  }
}
