import PipeRuntime

/// The events of the first model, one function each.
///
/// ```
/// inactive -- eventA(message) --> active(message), or failed without a message
/// active, failed -- eventX --> inactive
/// ```
package protocol ModelAProtocol: StateMachineProtocol<ModelA.State> {
  nonisolated func eventA(message: String)
  nonisolated func eventX()
}

/// A model that is active with a message, until it and the other model are reset together.
package actor ModelA: ModelAProtocol {
  package enum State: MachineState, StateProtocol, Hashable {
    case inactive
    case active(message: String)
    case failed
  }

  package enum Event: MachineEvent, Hashable {
    /// An event for this model alone.
    case eventA(message: String)
    /// An event for both models, or for none.
    case eventX
  }

  private let subject: ConcurrentValueSubject<State>
  /// The events, in order of arrival.
  private nonisolated let events: AsyncStream<Event>.Continuation

  package nonisolated var state: State { subject.state }
  package nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  package init(startsWith state: State, _ parameters: NoParameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
    let (stream, events) = AsyncStream.makeStream(of: Event.self)
    self.events = events
    Task { [weak self] in
      // The callers of the event functions do not learn of a refusal.
      for await event in stream { try? await self?.take(event) }
    }
  }

  deinit { events.finish() }

  package nonisolated func eventA(message: String) { events.yield(.eventA(message: message)) }
  package nonisolated func eventX() { events.yield(.eventX) }
}

extension ModelA: HostableModel {
  package static func initialState(_ parameters: NoParameters) -> State { .inactive }

  /// The event changes this model only, and has no other effects.
  package static var selfContained: SelfContainedEvents<Event> { .events(OneOf { Event.eventX }) }

  package func take(_ event: Event) throws {
    switch (subject.state, event) {
    case (.inactive, .eventA(let message)):
      subject.send(message.isEmpty ? .failed : .active(message: message))
    case (.active, .eventX), (.failed, .eventX): subject.send(.inactive)
    case (.inactive, .eventX): throw ModelRefusal.nothingToReset
    case (.active, .eventA), (.failed, .eventA): throw ModelRefusal.notReset
    }
  }
}

/// The reasons why one of the two models refuses an event.
package enum ModelRefusal: Error { case nothingToReset, notReset }
