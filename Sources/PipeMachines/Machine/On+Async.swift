// Transitions that suspend. Guards stay synchronous: they decide within the step.
extension On {
  /// Leads to another state on `event`, by and by.
  public init(event: Event, transition: sending @escaping () async -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      EventList.nextIsAsynchronous()
      guard let context = Matching<State, Event>.matching(event) else { return }
      Matching<State, Event>.suspend(context, transition)
    }
  }

  /// Leads to another state on `event`, which the closure receives, by and by.
  public init(event: Event, transition: sending @escaping (Event) async -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      EventList.nextIsAsynchronous()
      guard let context = Matching<State, Event>.matching(event) else { return }
      let event = Matching<State, Event>.event(of: context)
      Matching<State, Event>.suspend(context) { await transition(event) }
    }
  }

  /// Leads to another state on `event`, by and by, if the guard passes.
  public init(
    event: Event, guard: sending @escaping () -> Guard,
    transition: sending @escaping () async -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      EventList.nextIsAsynchronous()
      guard let context = Matching<State, Event>.matching(event, isGuarded: true) else { return }
      guard Matching<State, Event>.passes(`guard`(), context) else { return }
      Matching<State, Event>.suspend(context, transition)
    }
  }

  /// Leads to another state on `event`, which the closures receive, by and by.
  public init(
    event: Event, guard: sending @escaping (Event) -> Guard,
    transition: sending @escaping (Event) async -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      EventList.nextIsAsynchronous()
      guard let context = Matching<State, Event>.matching(event, isGuarded: true) else { return }
      let event = Matching<State, Event>.event(of: context)
      guard Matching<State, Event>.passes(`guard`(event), context) else { return }
      Matching<State, Event>.suspend(context) { await transition(event) }
    }
  }

  /// Leads to another state on any event of one case, by and by.
  public init<each Value>(
    event: sending @escaping (repeat each Value) -> Event,
    transition: sending @escaping (repeat each Value) async -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, transition) = (event, transition)
    self.init {
      EventList.nextIsAsynchronous()
      Matching<State, Event>.matching(event) { context, values in
        Matching<State, Event>.suspend(context) { await transition(repeat each values) }
      }
    }
  }

  /// Leads to another state on any event of one case, by and by, if the guard passes.
  public init<each Value>(
    event: sending @escaping (repeat each Value) -> Event,
    guard: sending @escaping (repeat each Value) -> Guard,
    transition: sending @escaping (repeat each Value) async -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, `guard`, transition) = (event, `guard`, transition)
    self.init {
      EventList.nextIsAsynchronous()
      Matching<State, Event>.matching(event, isGuarded: true) { context, values in
        guard Matching<State, Event>.passes(`guard`(repeat each values), context) else { return }
        Matching<State, Event>.suspend(context) { await transition(repeat each values) }
      }
    }
  }
}

// Several events. Those that are kept are disfavored: an `On` of ``Listed`` events would be one of them, too.
extension On {
  /// Leads to another state on any of several events, by and by.
  @_disfavoredOverload
  public init(events: OneOf<Event>, transition: sending @escaping () async -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      _ = On<State, Listed<Event, Never>>(events: events.standing(), transition: transition)
    }
  }

  /// Leads to another state on any of several events, by and by.
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>,
    transition: sending @escaping () async -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    EventList.nextIsAsynchronous()
    guard let context = Matching<State, Taken>.matching(events.standing()) else { return }
    Matching<State, Taken>.suspend(context, transition)
  }

  /// Leads to another state on any of several events, which the closure receives, by and by.
  @_disfavoredOverload
  public init(
    events: OneOf<Event>, transition: sending @escaping (Event) async -> Transition<State>
  ) {
    nonisolated(unsafe) let transition = transition
    self.init {
      _ = On<State, Listed<Event, Never>>(events: events.standing(), transition: transition)
    }
  }

  /// Leads to another state on any of several events, which the closure receives, by and by.
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>,
    transition: sending @escaping (Taken) async -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    EventList.nextIsAsynchronous()
    guard let context = Matching<State, Taken>.matching(events.standing()) else { return }
    let event = Matching<State, Taken>.event(of: context)
    Matching<State, Taken>.suspend(context) { await transition(event) }
  }

  /// Leads to another state on any of several events, by and by, if the guard passes.
  @_disfavoredOverload
  public init(
    events: OneOf<Event>, guard: sending @escaping () -> Guard,
    transition: sending @escaping () async -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(
        events: events.standing(), guard: `guard`, transition: transition)
    }
  }

  /// Leads to another state on any of several events, by and by, if the guard passes.
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>, guard: () -> Guard,
    transition: sending @escaping () async -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    EventList.nextIsAsynchronous()
    guard let context = Matching<State, Taken>.matching(events.standing(), isGuarded: true) else {
      return
    }
    guard Matching<State, Taken>.passes(`guard`(), context) else { return }
    Matching<State, Taken>.suspend(context, transition)
  }

  /// Leads to another state on any of several events, which the closures receive, by and by.
  @_disfavoredOverload
  public init(
    events: OneOf<Event>, guard: sending @escaping (Event) -> Guard,
    transition: sending @escaping (Event) async -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(
        events: events.standing(), guard: `guard`, transition: transition)
    }
  }

  /// Leads to another state on any of several events, which the closures receive, by and by.
  public init<Taken, Builder>(
    events: OneOf<Listed<Taken, Builder>>, guard: (Taken) -> Guard,
    transition: sending @escaping (Taken) async -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    EventList.nextIsAsynchronous()
    guard let context = Matching<State, Taken>.matching(events.standing(), isGuarded: true) else {
      return
    }
    let event = Matching<State, Taken>.event(of: context)
    guard Matching<State, Taken>.passes(`guard`(event), context) else { return }
    Matching<State, Taken>.suspend(context) { await transition(event) }
  }
}
