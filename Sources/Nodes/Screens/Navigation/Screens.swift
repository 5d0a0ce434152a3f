import PipeRuntime

/// The login screen.
package enum LoginScreen: Machine {
  package enum State: MachineState, Hashable {
    case hidden
    case shown
    /// The user has logged in, and the screen is no longer shown.
    case left
  }

  package enum Event: MachineEvent, Hashable {
    case show
    case leave
    case logIn
    case forgotPassword
  }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.hidden) {
      for state in [State.hidden, .shown, .left] {
        When(state: state) {
          Execute.noOutput
        } transitions: {
          On(event: Event.show) { Transition(to: State.shown) }
          On(event: Event.leave) { Transition(to: State.left) }
          On(event: Event.logIn) {
            Guard(predicate: state == .shown)
          } transition: {
            Transition(to: state)
          }
          On(event: Event.forgotPassword) {
            Guard(predicate: state == .shown)
          } transition: {
            Transition(to: state)
          }
        }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsReceiver(to: ports.pipe("updates"))
      .connectAsSender(
        to: ports.pipe("coordinator"),
        forEachEvent: { event -> MainCoordinator.Event? in
          switch event {
          case .logIn: .logIn
          case .forgotPassword: .forgotPassword
          case .show, .leave: nil
          }
        })
  }
}

/// The list of quizzes. When the user opens an item, the list asks the coordinator to show the
/// item's screen.
package enum ListScreen: Machine {
  package enum State: MachineState, Hashable {
    case hidden
    case shown
  }

  package enum Event: MachineEvent, Hashable {
    case show
    case hide
    case open(item: Int)
  }

  package struct Parameters: MachineParameters {
    /// The number of items. Items are numbered from 1.
    package var items = 10

    package init() {}

    package func validate() throws(ParameterMismatch) {
      try require("items", items, atLeast: 1)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.hidden) {
      for state in [State.hidden, .shown] {
        When(state: state) {
          Execute.noOutput
        } transitions: {
          On(event: Event.show) { Transition(to: State.shown) }
          On(event: Event.hide) { Transition(to: State.hidden) }
          On(event: Event.open(item:)) { item in
            Guard(predicate: state == .shown && (1...parameters.items).contains(item))
          } transition: { _ in
            Transition(to: state)
          }
        }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
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

/// The screen of one quiz, or of one question of a quiz.
package enum DetailScreen: Machine {
  package enum State: MachineState, Hashable {
    case hidden
    case showing(item: Int)
    case asking(item: Int, number: Int)
  }

  package enum Event: MachineEvent, Hashable {
    case show(item: Int)
    case showQuestion(item: Int, number: Int)
    case hide
  }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> {
    // The coordinator sends its event again with each of its own steps, so the same item may be
    // shown again.
    StateMachine(
      initial: State.hidden,
      reduce: { (_: State, event: Event) -> Reduction<State> in
        switch event {
        case .show(let item): .next(.showing(item: item))
        case .showQuestion(let item, let number): .next(.asking(item: item, number: number))
        case .hide: .next(.hidden)
        }
      })
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().connectAsReceiver(to: ports.pipe("updates"))
  }
}

/// The screen with the name of the logged-in user. Here, the user can also log out.
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

/// The screen with the results of the quizzes. The user can open each result.
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
