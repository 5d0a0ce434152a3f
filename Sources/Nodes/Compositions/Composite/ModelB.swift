import PipeRuntime

/// The events of model B, with a function for each event.
///
/// ```
/// inactive -- eventB(value) --> active(value), or failed below 0
/// active, failed -- eventX --> inactive
/// ```
package protocol ModelBProtocol: StateMachineProtocol<ModelB.State> {
  nonisolated func eventB(value: Int)
  nonisolated func eventX()
}

/// A model that becomes active with a value. The synchronized event `eventX` resets it together
/// with model A.
package actor ModelB: ModelBProtocol {
  package enum State: MachineState, StateProtocol, Hashable {
    case inactive
    case active(value: Int)
    case failed
  }

  package enum Event: MachineEvent, Hashable {
    /// An event that only this model accepts.
    case eventB(value: Int)
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

  package nonisolated func eventB(value: Int) { events.yield(.eventB(value: value)) }
  package nonisolated func eventX() { events.yield(.eventX) }
}

extension ModelB: HostableModel {
  package static func initialState(_ parameters: NoParameters) -> State { .inactive }

  /// The event `eventX` changes only this model. It has no other effects.
  package static var selfContained: SelfContainedEvents<Event> { .events(OneOf { Event.eventX }) }

  package func take(_ event: Event) throws {
    switch (subject.state, event) {
    case (.inactive, .eventB(let value)):
      subject.send(value < 0 ? .failed : .active(value: value))
    case (.active, .eventX), (.failed, .eventX): subject.send(.inactive)
    case (.inactive, .eventX): throw ModelRefusal.nothingToReset
    case (.active, .eventB), (.failed, .eventB): throw ModelRefusal.notReset
    }
  }
}
