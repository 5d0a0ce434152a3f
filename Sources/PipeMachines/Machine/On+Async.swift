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

// Several events.
extension On {
  /// Leads to another state on any of several events, by and by.
  public init(events: OneOf<Event>, transition: sending @escaping () async -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      EventList.nextIsAsynchronous()
      guard let context = Matching<State, Event>.matching(events) else { return }
      Matching<State, Event>.suspend(context, transition)
    }
  }

  /// Leads to another state on any of several events, which the closure receives, by and by.
  public init(
    events: OneOf<Event>, transition: sending @escaping (Event) async -> Transition<State>
  ) {
    nonisolated(unsafe) let transition = transition
    self.init {
      EventList.nextIsAsynchronous()
      guard let context = Matching<State, Event>.matching(events) else { return }
      let event = Matching<State, Event>.event(of: context)
      Matching<State, Event>.suspend(context) { await transition(event) }
    }
  }

  /// Leads to another state on any of several events, by and by, if the guard passes.
  public init(
    events: OneOf<Event>, guard: sending @escaping () -> Guard,
    transition: sending @escaping () async -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      EventList.nextIsAsynchronous()
      guard let context = Matching<State, Event>.matching(events, isGuarded: true) else { return }
      guard Matching<State, Event>.passes(`guard`(), context) else { return }
      Matching<State, Event>.suspend(context, transition)
    }
  }

  /// Leads to another state on any of several events, which the closures receive, by and by.
  public init(
    events: OneOf<Event>, guard: sending @escaping (Event) -> Guard,
    transition: sending @escaping (Event) async -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      EventList.nextIsAsynchronous()
      guard let context = Matching<State, Event>.matching(events, isGuarded: true) else { return }
      let event = Matching<State, Event>.event(of: context)
      guard Matching<State, Event>.passes(`guard`(event), context) else { return }
      Matching<State, Event>.suspend(context) { await transition(event) }
    }
  }
}
