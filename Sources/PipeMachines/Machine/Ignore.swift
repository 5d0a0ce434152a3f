// Functions that ignore events in a state. They return an `On`, which can be stored and listed like
// any other `On`. As for `On`, the overloads with a ``Listed`` event type are for the closure of a
// `When`.

/// Ignores an event in the state of the enclosing `When`: the machine consumes the event, and
/// nothing changes.
///
/// An ignored event is not a step: it does not increase the version, starts and ends no effect, and
/// sends nothing. The machine does not refuse the event either, so the event never becomes a dead
/// letter.
///
/// ```swift
/// When(state: State.closed) { Execute.noOutput } transitions: {
///   On(event: Event.open) { Transition(to: State.opened) }
///   Ignore(event: Event.close)
/// }
/// ```
@inlinable
public func Ignore<State, Taken, Builder>(event: Taken) -> On<State, Listed<Taken, Builder>> {
  EventList.markNextIgnored()
  if let context = Matching<State, Taken>.matching(event) {
    Matching<State, Taken>.ignore(context)
  }
  return On(read: nil)
}

/// Ignores an event in each state whose `When` lists the returned `On`.
@inlinable
@_disfavoredOverload
public func Ignore<State, Event>(event: Event) -> On<State, Event> {
  On {
    _ = Ignore(event: event) as On<State, Listed<Event, Never>>
  }
}

/// Ignores all events of one case in the state of the enclosing `When`.
@inlinable
public func Ignore<State, Taken, Builder, each Value>(
  event: (repeat each Value) -> Taken
) -> On<State, Listed<Taken, Builder>> {
  EventList.markNextIgnored()
  Matching<State, Taken>.matching(event) { context, _ in Matching<State, Taken>.ignore(context) }
  return On(read: nil)
}

/// Ignores all events of one case in each state whose `When` lists the returned `On`.
@inlinable
@_disfavoredOverload
public func Ignore<State, Event, each Value>(
  event: sending @escaping (repeat each Value) -> Event
) -> On<State, Event> {
  nonisolated(unsafe) let event = event
  return On {
    _ = Ignore(event: event) as On<State, Listed<Event, Never>>
  }
}

/// Ignores all events of a case with one associated value in the state of the enclosing `When`.
@inlinable
public func Ignore<State, Taken, Builder, Value>(
  event: (Value) -> Taken
) -> On<State, Listed<Taken, Builder>> {
  EventList.markNextIgnored()
  Matching<State, Taken>.matchingOne(event) { context, _ in Matching<State, Taken>.ignore(context) }
  return On(read: nil)
}

/// Ignores all events of a case with one associated value in each state whose `When` lists the
/// returned `On`.
@inlinable
@_disfavoredOverload
public func Ignore<State, Event, Value>(
  event: sending @escaping (Value) -> Event
) -> On<State, Event> {
  nonisolated(unsafe) let event = event
  return On {
    _ = Ignore(event: event) as On<State, Listed<Event, Never>>
  }
}

/// Ignores several events in the state of the enclosing `When`.
@inlinable
public func Ignore<State, Taken, Builder>(
  events: OneOf<Listed<Taken, Builder>>
) -> On<State, Listed<Taken, Builder>> {
  EventList.markNextIgnored()
  if let context = Matching<State, Taken>.matching(events.retyped()) {
    Matching<State, Taken>.ignore(context)
  }
  return On(read: nil)
}

/// Ignores several events in each state whose `When` lists the returned `On`.
@inlinable
@_disfavoredOverload
public func Ignore<State, Event>(events: OneOf<Event>) -> On<State, Event> {
  On {
    _ = Ignore(events: events.retyped()) as On<State, Listed<Event, Never>>
  }
}
