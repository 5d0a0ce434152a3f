import PipeRuntime

/// The states of a boiler, which is written in each style. Tests use it with a key.
package enum BoilerState: MachineState, StateProtocol, Hashable {
  case off
  case heating(times: Int)
  case hot(times: Int)
}

/// The events of a boiler.
package enum BoilerEvent: MachineEvent, Hashable {
  case heat(id: String)
  case boiled

  /// Returns the state after an event; the same state if the event has no meaning there.
  static func next(_ state: BoilerState, _ event: BoilerEvent) -> BoilerState {
    switch (state, event) {
    case (.off, .heat): .heating(times: 1)
    case (.hot(let times), .heat): .heating(times: times + 1)
    case (.heating(let times), .boiled): .hot(times: times)
    case (.heating, .heat), (.off, .boiled), (.hot, .boiled): state
    }
  }

  fileprivate static var boil: Feedback<BoilerState, BoilerEvent> {
    Feedback(lensing: { (state: BoilerState) -> Int? in
      if case .heating(let times) = state { times } else { nil }
    }) { _ in BoilerEvent.boiled }
  }
}

/// The boiler in the machine language.
package enum TableBoiler: Machine {
  package typealias State = BoilerState
  package typealias Event = BoilerEvent
  package enum Output: MachineOutput { case boil }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Output>
  {
    StateMachine(initial: State.off) {
      When(state: State.off) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.heat(id:)) { _ in Transition(to: State.heating(times: 1)) }
      }
      When(state: State.heating(times:)) { _ in
        Execute(output: Output.boil)
      } transitions: { times in
        On(event: Event.boiled) { _ in Transition(to: State.hot(times: times)) }
      }
      When(state: State.hot(times:)) { _ in
        Execute.noOutput
      } transitions: { times in
        On(event: Event.heat(id:)) { _ in Transition(to: State.heating(times: times + 1)) }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime().map(output: Output.boil) { () -> Event? in .boiled }
  }
}

/// The boiler in the machine language, with asynchronous transitions and a timer instead of an
/// effect.
package enum SlowBoiler: Machine {
  package typealias State = BoilerState
  package typealias Event = BoilerEvent

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.off) {
      When(state: State.off) {
        On(event: Event.heat(id:)) { _ in
          await Task.yield()
          return Transition(to: State.heating(times: 1))
        }
      }
      When(state: State.heating(times:)) { times in
        After(.milliseconds(1)) { Transition(to: State.hot(times: times)) }
      }
      When(state: State.hot(times:)) { times in
        On(event: Event.heat(id:)) { _ in
          await Task.yield()
          return Transition(to: State.heating(times: times + 1))
        }
      }
    }
  }
}

/// The boiler as a function of state and event, with a feedback.
package enum FunctionBoiler: Machine {
  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<BoilerState, BoilerEvent, Never> {
    StateMachine(initial: .off, reduce: BoilerEvent.next)
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<BoilerState, BoilerEvent, Never> { Runtime().feedback(BoilerEvent.boil) }
}

/// The boiler as a feature.
package struct BoilerFeature: FeatureType {
  package func reduce(state: BoilerState, action: BoilerEvent) async -> BoilerState {
    await Task.yield()
    return BoilerEvent.next(state, action)
  }
}

/// The feature as a node.
package enum FeatureBoiler: FeatureMachine {
  package static func initialState(_ parameters: NoParameters) -> BoilerState { .off }
  package static func feature(_ parameters: NoParameters) -> BoilerFeature { BoilerFeature() }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<BoilerState, BoilerEvent, Never> { Runtime().feedback(BoilerEvent.boil) }
}

/// The boiler as a model.
package actor ModelBoiler: HostableModel {
  package typealias State = BoilerState
  package typealias Event = BoilerEvent

  private let subject: ConcurrentValueSubject<State>

  package init(startsWith state: State, _ parameters: NoParameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
  }

  package static func initialState(_ parameters: NoParameters) -> State { .off }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> { Runtime() }

  package nonisolated var state: State { subject.state }
  package nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  package func take(_ event: Event) async throws {
    subject.send(BoilerEvent.next(subject.state, event))
  }
}
