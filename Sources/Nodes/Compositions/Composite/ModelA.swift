import PipeRuntime

/// The events of model A, with a function for each event.
///
/// ```
/// inactive -- eventA(message) --> active(message), or failed without a message
/// active, failed -- eventX --> inactive
/// ```
package protocol ModelAProtocol: StateMachineProtocol<ModelA.State> {
  nonisolated func eventA(message: String)
  nonisolated func eventX()
}

/// A model that becomes active with a message. The synchronized event `eventX` resets it together
/// with model B.
package actor ModelA: ModelAProtocol {
  package enum State: MachineState, StateProtocol, Hashable {
    case inactive
    case active(message: String)
    case failed
  }

  package enum Event: MachineEvent, Hashable {
    /// An event that only this model accepts.
    case eventA(message: String)
    /// A synchronized event. It resets either both models or neither of them.
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
      // Refusals are ignored: the event functions return nothing, so their callers cannot learn of
      // a refusal.
      for await event in stream { try? await self?.take(event) }
    }
  }

  deinit { events.finish() }

  package nonisolated func eventA(message: String) { events.yield(.eventA(message: message)) }
  package nonisolated func eventX() { events.yield(.eventX) }
}

extension ModelA: HostableModel {
  package static func initialState(_ parameters: NoParameters) -> State { .inactive }

  /// The event `eventX` changes only this model. It has no other effects.
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

/// The reason why model A or model B refuses an event.
package enum ModelRefusal: Error { case nothingToReset, notReset }
