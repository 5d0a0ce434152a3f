import PipeRuntime

/// A model that, depending on its parameters, starts in an unstable state.
package actor Wobbler: HostableModel {
  package enum State: MachineState, StateProtocol, Equatable {
    case still
    case wobbling

    package var isStable: Bool { self == .still }
  }

  package enum Event: MachineEvent { case push }

  package struct Parameters: MachineParameters {
    package var wobbles = false
    package init() {}
  }

  private let subject: ConcurrentValueSubject<State>

  package init(startsWith state: State, _ parameters: Parameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
  }

  package static func initialState(_ parameters: Parameters) -> State {
    parameters.wobbles ? .wobbling : .still
  }

  package nonisolated var state: State { subject.state }
  package nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  package func take(_ event: Event) {
    subject.send(.wobbling)
    subject.send(.still)
  }
}
