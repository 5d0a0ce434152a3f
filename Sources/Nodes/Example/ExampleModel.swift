import PipeRuntime

/// The events of the example model, one function each.
///
/// ```
/// state1 -- eventA --> state2 --> state3
/// state3 -- eventB(param) --> state1
/// ```
package protocol ExampleModelProtocol: StateMachineProtocol<ExampleState> {
  nonisolated func eventA()
  nonisolated func eventB(param: Int)
}

/// A model written as an actor: it decides in plain code, and passes through a state on its way.
package actor ExampleModel: ExampleModelProtocol {
  package enum Event: MachineEvent, Hashable {
    case eventA
    case eventB(param: Int)
  }

  private let subject: ConcurrentValueSubject<ExampleState>
  /// Events in the order in which they were given.
  private nonisolated let events: AsyncStream<Event>.Continuation

  package nonisolated var state: ExampleState { subject.state }
  package nonisolated var stateDidChange: StatePublisher<ExampleState> {
    subject.eraseToAnyPublisher()
  }

  /// - Throws: `UnstableStateError` where the state is not one to start in.
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

/// The example model in one state, for tests and previews.
package actor ConstantExampleModel: ExampleModelProtocol {
  package nonisolated let state: ExampleState
  package nonisolated var stateDidChange: StatePublisher<ExampleState> { .constant(state) }

  package init(_ state: ExampleState) { self.state = state }

  package nonisolated func eventA() {}
  package nonisolated func eventB(param: Int) {}
}
