import PipeRuntime

/// A model that changes its state twice in quick succession without an event. An observer may see
/// only the second state.
package actor Ripener: HostableModel {
  package enum State: MachineState, StateProtocol, Equatable {
    case green, turning, ripe

    package var isStable: Bool { self != .turning }
  }

  package enum Event: MachineEvent { case plant, ripened }

  private let subject: ConcurrentValueSubject<State>

  package init(startsWith state: State, _ parameters: NoParameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
  }

  package static func initialState(_ parameters: NoParameters) -> State { .green }

  package static func event(forChangeTo state: State) -> Event? { state == .ripe ? .ripened : nil }

  package nonisolated var state: State { subject.state }
  package nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  package func take(_ event: Event) {
    subject.send(.green)
    Task { [subject] in
      try? await Task.sleep(for: .milliseconds(5))
      subject.send(.turning)
      subject.send(.ripe)
    }
  }
}
