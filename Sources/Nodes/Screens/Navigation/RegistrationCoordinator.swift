import PipeRuntime

/// The screens of a registration.
package enum RegistrationRoute: RouteType {
  case terms
  case name
}

/// A coordinator within another one: which screen of the registration is shown, while the main
/// coordinator shows the registration.
package enum RegistrationCoordinator: Machine {
  package enum State: MachineState, Hashable {
    case hidden
    case shown(screens: NavigationStack<RegistrationRoute>)
  }

  package enum Event: MachineEvent, Hashable {
    case show
    case hide
    /// Accepts the terms.
    case accept
    case enter(name: String)
    case back
    /// Leaves the registration.
    case cancel
  }

  package static func reduce(_ state: State, _ event: Event) -> Reduction<State> {
    switch (state, event) {
    case (_, .hide): return .next(.hidden)
    case (.hidden, .show): return .next(.shown(screens: NavigationStack(root: .terms)))
    // The main coordinator tells with each of its steps.
    case (.shown, .show), (.shown, .cancel): return .next(state)
    case (.shown(let screens), .accept): return changed(screens) { try $0.push(.name) }
    case (.shown(let screens), .back): return changed(screens) { try $0.pop() }
    case (.shown(let screens), .enter(let name)):
      return screens.top == .name && !name.isEmpty ? .next(state) : .refused(.guard)
    case (.hidden, _): return .refused(.noTransition)
    }
  }

  private static func changed(
    _ screens: NavigationStack<RegistrationRoute>,
    _ change: (inout NavigationStack<RegistrationRoute>) throws -> Void
  ) -> Reduction<State> {
    var screens = screens
    do { try change(&screens) } catch { return .refused(.thrown("\(error)")) }
    return .next(.shown(screens: screens))
  }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: .hidden, reduce: reduce)
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
          case .enter(let name): .registered(name: name)
          case .cancel: .pop
          case .show, .hide, .accept, .back: nil
          }
        })
  }
}
