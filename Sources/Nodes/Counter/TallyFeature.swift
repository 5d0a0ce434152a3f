import PipeRuntime

/// The parent of a counter. It counts the actions of the counter.
package struct TallyFeature: FeatureType {
  package struct State: MachineState, Hashable {
    /// The state of the counter. If the counter is a separate node, this state is a copy.
    package var counter: CounterFeature.State
    package var increments: Int
    package var decrements: Int

    package init(
      counter: CounterFeature.State = .init(), increments: Int = 0, decrements: Int = 0
    ) {
      self.counter = counter
      self.increments = increments
      self.decrements = decrements
    }
  }

  package enum Action: MachineEvent, Hashable {
    /// An action that the counter has processed.
    case counter(CounterFeature.Action)
    /// The state of the counter. A counter that is a separate node sends this action.
    case counterMoved(to: CounterFeature.State)
    case reset
  }

  package init() {}

  package func reduce(state: State, action: Action) async -> State {
    var state = state
    switch action {
    case .counter(.increment): state.increments += 1
    case .counter(.decrement): state.decrements += 1
    case .counter(.binding): break
    case .counterMoved(let counter): state.counter = counter
    case .reset: state = State(counter: state.counter)
    }
    return state
  }
}

/// The parent of a counter as a node.
package enum CounterTally: FeatureMachine {
  package static func initialState(_ parameters: NoParameters) -> TallyFeature.State { .init() }
  package static func feature(_ parameters: NoParameters) -> TallyFeature { TallyFeature() }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<TallyFeature.State, TallyFeature.Action, Never> {
    Runtime().connectAsReceiver(to: ports.pipe("actions"))
  }
}
