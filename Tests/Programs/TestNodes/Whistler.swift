import PipeRuntime

/// A model that begins to whistle without an event. Listeners take the whistle as a synchronized
/// event together with the model.
package actor Whistler: HostableModel {
  package enum State: MachineState, StateProtocol, Hashable {
    case quiet(times: Int)
    case whistling(times: Int)
    package var isStable: Bool { true }
  }

  package enum Event: MachineEvent, Hashable { case heat, cool, whistle }

  private let subject: ConcurrentValueSubject<State>

  package init(startsWith state: State, _ parameters: NoParameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
  }

  package static func initialState(_ parameters: NoParameters) -> State { .quiet(times: 0) }

  package static var selfContained: SelfContainedEvents<Event> { .all(within: .seconds(60)) }

  package static func event(forChangeTo state: State) -> Event? {
    if case .whistling = state { .whistle } else { nil }
  }

  package nonisolated var state: State { subject.state }
  package nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  package func take(_ event: Event) {
    switch (subject.state, event) {
    case (.quiet(let times), .heat):
      // Wait until the step of the event has ended. Otherwise the change would belong to that step.
      Task { [subject] in
        try? await Task.sleep(for: .milliseconds(500))
        subject.send(.whistling(times: times + 1))
      }
    case (.whistling(let times), .cool): subject.send(.quiet(times: times))
    case (.quiet, .cool), (.quiet, .whistle), (.whistling, .heat), (.whistling, .whistle): break
    }
  }
}

/// Counts the whistles that it receives.
package enum Listener: Machine {
  package enum State: MachineState, Equatable { case heard(times: Int) }
  package enum Event: MachineEvent { case whistle }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.heard(times: 0)) {
      When(state: State.heard(times:)) { _ in
        Execute.noOutput
      } transitions: { times in
        On(event: Event.whistle) { Transition(to: State.heard(times: times + 1)) }
      }
    }
  }
}
