// Initializers for several events. The overloads for stored `On`s are disfavored, because they
// would also match an `On` of ``Listed`` events.
extension On {
  /// Creates a transition on any of several events.
  @inlinable
  @_disfavoredOverload
  public init(events: OneOf<Event>, transition: sending @escaping () -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      _ = On<State, Listed<Event, Never>>(events: events.retyped(), transition: transition)
    }
  }

  /// Creates a transition on any of several events.
  @inlinable
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>, transition: () -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(events.retyped()) else { return }
    Matching<State, Taken>.finish(context, transition())
  }

  /// Creates a transition on any of several events, and passes the event to the closure.
  @inlinable
  @_disfavoredOverload
  public init(events: OneOf<Event>, transition: sending @escaping (Event) -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      _ = On<State, Listed<Event, Never>>(events: events.retyped(), transition: transition)
    }
  }

  /// Creates a transition on any of several events, and passes the event to the closure.
  @inlinable
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>, transition: (Taken) -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(events.retyped()) else { return }
    Matching<State, Taken>.finish(context, transition(Matching<State, Taken>.event(of: context)))
  }

  /// Creates a transition on any of several events with a guard.
  @inlinable
  @_disfavoredOverload
  public init(
    events: OneOf<Event>, guard: sending @escaping () -> Guard,
    transition: sending @escaping () -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(
        events: events.retyped(), guard: `guard`, transition: transition)
    }
  }

  /// Creates a transition on any of several events with a guard.
  @inlinable
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>, guard: () -> Guard,
    transition: () -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(events.retyped(), isGuarded: true) else {
      return
    }
    guard Matching<State, Taken>.passes(`guard`(), context) else { return }
    Matching<State, Taken>.finish(context, transition())
  }

  /// Creates a transition on any of several events with a guard, and passes the event to both
  /// closures.
  @inlinable
  @_disfavoredOverload
  public init(
    events: OneOf<Event>, guard: sending @escaping (Event) -> Guard,
    transition: sending @escaping (Event) -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(
        events: events.retyped(), guard: `guard`, transition: transition)
    }
  }

  /// Creates a transition on any of several events with a guard, and passes the event to both
  /// closures.
  @inlinable
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>, guard: (Taken) -> Guard,
    transition: (Taken) -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(events.retyped(), isGuarded: true) else {
      return
    }
    let event = Matching<State, Taken>.event(of: context)
    guard Matching<State, Taken>.passes(`guard`(event), context) else { return }
    Matching<State, Taken>.finish(context, transition(event))
  }
}
