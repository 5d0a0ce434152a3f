import PipeRuntime

/// The events of the example model, with a function for each event.
///
/// ```
/// state1 -- eventA --> state2 --> state3
/// state3 -- eventB(param) --> state1
/// ```
package protocol ExampleModelProtocol: StateMachineProtocol<ExampleState> {
  nonisolated func eventA()
  nonisolated func eventB(param: Int)
}

/// A model that is written as an actor. Its transitions are plain code, with an intermediate state.
package actor ExampleModel: ExampleModelProtocol {
  package enum Event: MachineEvent, Hashable {
    case eventA
    case eventB(param: Int)
  }

  private let subject: ConcurrentValueSubject<ExampleState>
  /// The events, in order of arrival.
  private nonisolated let events: AsyncStream<Event>.Continuation

  package nonisolated var state: ExampleState { subject.state }
  package nonisolated var stateDidChange: StatePublisher<ExampleState> {
    subject.eraseToAnyPublisher()
  }

  /// - Throws: `UnstableStateError` if the state is not a valid initial state.
  package init(startsWith state: ExampleState) throws(UnstableStateError) {
    subject = try ConcurrentValueSubject(startsWith: state)
    let (stream, events) = AsyncStream.makeStream(of: Event.self)
    self.events = events
    Task { [weak self] in
      for await event in stream { await self?.take(event) }
    }
  }

  deinit { events.finish() }

  package nonisolated func eventA() { events.yield(.eventA) }
  package nonisolated func eventB(param: Int) { events.yield(.eventB(param: param)) }
}

extension ExampleModel: HostableModel {
  package static func initialState(_ parameters: NoParameters) -> ExampleState {
    .state1(message: "start")
  }

  package init(startsWith state: ExampleState, _ parameters: NoParameters) throws {
    try self.init(startsWith: state)
  }

  package func take(_ event: Event) async {
    switch (subject.state, event) {
    case (.state1(let message), .eventA):
      subject.send(.state2(message: message))
      await Task.yield()
      subject.send(.state3(message: "\(message), done"))
    case (.state3, .eventB(let param)): subject.send(.state1(message: "\(param)"))
    case (.state1, .eventB), (.state2, _), (.state3, .eventA): break
    }
  }
}

/// An example model whose state never changes, for tests and previews.
package actor ConstantExampleModel: ExampleModelProtocol {
  package nonisolated let state: ExampleState
  package nonisolated var stateDidChange: StatePublisher<ExampleState> { .constant(state) }

  package init(_ state: ExampleState) { self.state = state }

  package nonisolated func eventA() {}
  package nonisolated func eventB(param: Int) {}
}

/// The states of the example model.
package enum ExampleState: MachineState, StateProtocol, Hashable {
  case state1(message: String)
  /// The intermediate state on the way to state 3.
  case state2(message: String)
  case state3(message: String)

  package var isStable: Bool {
    switch self {
    case .state1, .state3: true
    case .state2: false
    }
  }

  package var message: String {
    switch self {
    case .state1(let message), .state2(let message), .state3(let message): message
    }
  }
}

/// A view of the example model. The keys a and b send its events.
package enum ExampleView: TerminalView {
  package static func body(_ state: ExampleState, size: TerminalSize) -> [StyledLine] {
    let name =
      switch state {
      case .state1: "state 1"
      case .state2: "state 2"
      case .state3: "state 3"
      }
    return [
      StyledLine(name, .bold), StyledLine(state.message),
      StyledLine(state.isStable ? "a and b act" : "", .dim),
    ]
  }

  package static func event(for key: Key, in state: ExampleState) -> ExampleModel.Event? {
    switch key {
    case .character("a"): .eventA
    case .character("b"): .eventB(param: 7)
    default: nil
    }
  }
}

/// A proxy for an example model that runs as a node in another process.
extension RemoteModel: ExampleModelProtocol
where State == ExampleState, Event == ExampleModel.Event {
  package nonisolated func eventA() { post(.eventA) }
  package nonisolated func eventB(param: Int) { post(.eventB(param: param)) }
}
