import PipeRuntime

/// Who is logged in, and the way out.
package enum ProfileScreen: Machine {
  package enum State: MachineState, Hashable {
    case hidden
    case shown(name: String)
  }

  package enum Event: MachineEvent, Hashable {
    case show(name: String)
    case hide
    case logOut
  }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(
      initial: State.hidden,
      reduce: { (state: State, event: Event) -> Reduction<State> in
        switch (state, event) {
        case (_, .show(let name)): .next(.shown(name: name))
        case (_, .hide): .next(.hidden)
        case (.shown, .logOut): .next(state)
        case (.hidden, .logOut): .refused(.noTransition)
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
        forEachEvent: { event -> MainCoordinator.Event? in event == .logOut ? .logOut : nil })
  }
}
