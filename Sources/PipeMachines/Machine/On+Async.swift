// Transitions that suspend the machine. Guards stay synchronous: they decide within the step.
extension On {
  /// Creates an asynchronous transition on `event`.
  public init(event: Event, transition: sending @escaping () async throws -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      EventList.markNextAsynchronous()
      guard let context = Matching<State, Event>.matching(event) else { return }
      Matching<State, Event>.suspend(context, transition)
    }
  }

  /// Creates an asynchronous transition on `event`, and passes the event to the closure.
  public init(event: Event, transition: sending @escaping (Event) async throws -> Transition<State>)
  {
    nonisolated(unsafe) let transition = transition
    self.init {
      EventList.markNextAsynchronous()
      guard let context = Matching<State, Event>.matching(event) else { return }
      let event = Matching<State, Event>.event(of: context)
      Matching<State, Event>.suspend(context) { try await transition(event) }
    }
  }

  /// Creates an asynchronous transition on `event` with a guard.
  public init(
    event: Event, guard: sending @escaping () -> Guard,
    transition: sending @escaping () async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      EventList.markNextAsynchronous()
      guard let context = Matching<State, Event>.matching(event, isGuarded: true) else { return }
      guard Matching<State, Event>.passes(`guard`(), context) else { return }
      Matching<State, Event>.suspend(context, transition)
    }
  }

  /// Creates an asynchronous transition on `event` with a guard, and passes the event to both
  /// closures.
  public init(
    event: Event, guard: sending @escaping (Event) -> Guard,
    transition: sending @escaping (Event) async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      EventList.markNextAsynchronous()
      guard let context = Matching<State, Event>.matching(event, isGuarded: true) else { return }
      let event = Matching<State, Event>.event(of: context)
      guard Matching<State, Event>.passes(`guard`(event), context) else { return }
      Matching<State, Event>.suspend(context) { try await transition(event) }
    }
  }

  /// Creates an asynchronous transition on any event of one case.
  public init<each Value>(
    event: sending @escaping (repeat each Value) -> Event,
    transition: sending @escaping (repeat each Value) async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, transition) = (event, transition)
    self.init {
      EventList.markNextAsynchronous()
      Matching<State, Event>.matching(event) { context, values in
        Matching<State, Event>.suspend(context) { try await transition(repeat each values) }
      }
    }
  }

  /// Creates an asynchronous transition on any event of one case with a guard.
  public init<each Value>(
    event: sending @escaping (repeat each Value) -> Event,
    guard: sending @escaping (repeat each Value) -> Guard,
    transition: sending @escaping (repeat each Value) async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, `guard`, transition) = (event, `guard`, transition)
    self.init {
      EventList.markNextAsynchronous()
      Matching<State, Event>.matching(event, isGuarded: true) { context, values in
        guard Matching<State, Event>.passes(`guard`(repeat each values), context) else { return }
        Matching<State, Event>.suspend(context) { try await transition(repeat each values) }
      }
    }
  }
}

// Initializers for several events. The overloads for stored `On`s are disfavored, because they
// would also match an `On` of ``Listed`` events.
extension On {
  /// Creates an asynchronous transition on any of several events.
  @_disfavoredOverload
  public init(
    events: OneOf<Event>, transition: sending @escaping () async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let transition = transition
    self.init {
      _ = On<State, Listed<Event, Never>>(events: events.retyped(), transition: transition)
    }
  }

  /// Creates an asynchronous transition on any of several events.
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>,
    transition: sending @escaping () async throws -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    EventList.markNextAsynchronous()
    guard let context = Matching<State, Taken>.matching(events.retyped()) else { return }
    Matching<State, Taken>.suspend(context, transition)
    hasSuspended = true
  }

  /// Creates an asynchronous transition on any of several events, and passes the event to the
  /// closure.
  @_disfavoredOverload
  public init(
    events: OneOf<Event>, transition: sending @escaping (Event) async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let transition = transition
    self.init {
      _ = On<State, Listed<Event, Never>>(events: events.retyped(), transition: transition)
    }
  }

  /// Creates an asynchronous transition on any of several events, and passes the event to the
  /// closure.
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>,
    transition: sending @escaping (Taken) async throws -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    EventList.markNextAsynchronous()
    guard let context = Matching<State, Taken>.matching(events.retyped()) else { return }
    let event = Matching<State, Taken>.event(of: context)
    Matching<State, Taken>.suspend(context) { try await transition(event) }
    hasSuspended = true
  }

  /// Creates an asynchronous transition on any of several events with a guard.
  @_disfavoredOverload
  public init(
    events: OneOf<Event>, guard: sending @escaping () -> Guard,
    transition: sending @escaping () async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(
        events: events.retyped(), guard: `guard`, transition: transition)
    }
  }

  /// Creates an asynchronous transition on any of several events with a guard.
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>, guard: () -> Guard,
    transition: sending @escaping () async throws -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    EventList.markNextAsynchronous()
    guard let context = Matching<State, Taken>.matching(events.retyped(), isGuarded: true) else {
      return
    }
    guard Matching<State, Taken>.passes(`guard`(), context) else { return }
    Matching<State, Taken>.suspend(context, transition)
    hasSuspended = true
  }

  /// Creates an asynchronous transition on any of several events with a guard, and passes the event
  /// to both closures.
  @_disfavoredOverload
  public init(
    events: OneOf<Event>, guard: sending @escaping (Event) -> Guard,
    transition: sending @escaping (Event) async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(
        events: events.retyped(), guard: `guard`, transition: transition)
    }
  }

  /// Creates an asynchronous transition on any of several events with a guard, and passes the event
  /// to both closures.
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>, guard: (Taken) -> Guard,
    transition: sending @escaping (Taken) async throws -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    EventList.markNextAsynchronous()
    guard let context = Matching<State, Taken>.matching(events.retyped(), isGuarded: true) else {
      return
    }
    let event = Matching<State, Taken>.event(of: context)
    guard Matching<State, Taken>.passes(`guard`(event), context) else { return }
    Matching<State, Taken>.suspend(context) { try await transition(event) }
    hasSuspended = true
  }
}
