import PipeRuntime

/// A service that computes the next count, as an example of a feature's dependency.
package protocol CounterService: Sendable {
  func increment(_ count: Int) async -> Int
  func decrement(_ count: Int) async -> Int
}

/// A service that adds and subtracts one.
package struct UnitSteps: CounterService {
  package init() {}
  package func increment(_ count: Int) async -> Int { count + 1 }
  package func decrement(_ count: Int) async -> Int { count - 1 }
}

/// A counter, with a note that a view can edit.
package struct CounterFeature: FeatureType {
  package struct State: MachineState, Hashable {
    package var count: Int
    package var note: String

    package init(count: Int = 0, note: String = "") {
      self.count = count
      self.note = note
    }
  }

  package enum Action: MachineEvent, BindableAction, Hashable {
    case increment
    case decrement
    case binding(Field)

    package enum Field: String, Codable, Hashable, Sendable { case note }
  }

  package let service: any CounterService

  package init(service: any CounterService = UnitSteps()) { self.service = service }

  package func reduce(state: State, action: Action) async -> State {
    var state = state
    switch action {
    case .increment: state.count = await service.increment(state.count)
    case .decrement: state.count = await service.decrement(state.count)
    case .binding(.note): state.note = String(state.note.prefix(40))
    }
    return state
  }
}

/// The counter as a node. The node sends its states and actions to the parent, through its port
/// `parent`.
package enum Counter: FeatureMachine {
  package static func initialState(_ parameters: NoParameters) -> CounterFeature.State { .init() }
  package static func feature(_ parameters: NoParameters) -> CounterFeature { CounterFeature() }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<CounterFeature.State, CounterFeature.Action, Never> {
    Runtime().scope(
      to: ports.pipe("parent"), state: TallyFeature.Action.counterMoved,
      action: TallyFeature.Action.counter)
  }
}

/// A view of a counter. The keys + and - change the count.
package enum CounterView: TerminalView {
  package static func body(_ state: CounterFeature.State, size: TerminalSize) -> [StyledLine] {
    [StyledLine("\(state.count)", .bold), StyledLine("+ and - count", .dim)]
  }

  package static func event(
    for key: Key, in state: CounterFeature.State
  ) -> CounterFeature.Action? {
    switch key {
    case .character("+"), .up: .increment
    case .character("-"), .down: .decrement
    default: nil
    }
  }
}

/// A view of the parent of a counter. The key r resets the counts.
package enum TallyView: TerminalView {
  package static func body(_ state: TallyFeature.State, size: TerminalSize) -> [StyledLine] {
    [
      StyledLine("\(state.counter.count)", .bold),
      "\(state.increments) up, \(state.decrements) down",
      StyledLine("r resets", .dim),
    ]
  }

  package static func event(for key: Key, in state: TallyFeature.State) -> TallyFeature.Action? {
    key == .character("r") ? .reset : nil
  }
}
