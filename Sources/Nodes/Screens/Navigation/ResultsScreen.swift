import PipeRuntime

/// The results of the quizzes, each of which can be opened.
package enum ResultsScreen: Machine {
  package enum State: MachineState, Hashable {
    case hidden
    case shown
  }

  package enum Event: MachineEvent, Hashable {
    case show
    case hide
    case open(item: Int)
  }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(
      initial: State.hidden,
      reduce: { (state: State, event: Event) -> Reduction<State> in
        switch (state, event) {
        case (_, .show): .next(.shown)
        case (_, .hide): .next(.hidden)
        case (.shown, .open(let item)): item > 0 ? .next(state) : .refused(.guard)
        case (.hidden, .open): .refused(.noTransition)
        }
      })
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsReceiver(to: ports.pipe("updates"))
      .connectAsSender(
        to: ports.pipe("coordinator"),
        forEachEvent: { event -> MainCoordinator.Event? in
          if case .open(let item) = event { .open(item: item) } else { nil }
        })
  }
}
