// Transitions that suspend. Guards stay synchronous: they decide within the step.
extension On {
  /// Leads to another state on `event`, by and by.
  public init(event: Event, transition: @escaping () async -> Transition<State>) {
    self.init()
    EventList.nextIsAsynchronous()
    guard let context = Self.matching(event) else { return }
    Self.suspend(context, transition)
  }

  /// Leads to another state on `event`, which the closure receives, by and by.
  public init(event: Event, transition: @escaping (Event) async -> Transition<State>) {
    self.init()
    EventList.nextIsAsynchronous()
    guard let context = Self.matching(event) else { return }
    let event = Self.event(of: context)
    Self.suspend(context) { await transition(event) }
  }

  /// Leads to another state on `event`, by and by, if the guard passes.
  public init(
    event: Event, guard: () -> Guard, transition: @escaping () async -> Transition<State>
  ) {
    self.init()
    EventList.nextIsAsynchronous()
    guard let context = Self.matching(event, isGuarded: true) else { return }
    guard Self.passes(`guard`(), context) else { return }
    Self.suspend(context, transition)
  }

  /// Leads to another state on `event`, which the closures receive, by and by.
  public init(
    event: Event, guard: (Event) -> Guard,
    transition: @escaping (Event) async -> Transition<State>
  ) {
    self.init()
    EventList.nextIsAsynchronous()
    guard let context = Self.matching(event, isGuarded: true) else { return }
    let event = Self.event(of: context)
    guard Self.passes(`guard`(event), context) else { return }
    Self.suspend(context) { await transition(event) }
  }

  /// Leads to another state on any event of one case, by and by.
  public init<each Value>(
    event: (repeat each Value) -> Event,
    transition: @escaping (repeat each Value) async -> Transition<State>
  ) {
    self.init()
    EventList.nextIsAsynchronous()
    Self.matching(event) { context, values in
      Self.suspend(context) { await transition(repeat each values) }
    }
  }

  /// Leads to another state on any event of one case, by and by, if the guard passes.
  public init<each Value>(
    event: (repeat each Value) -> Event,
    guard: (repeat each Value) -> Guard,
    transition: @escaping (repeat each Value) async -> Transition<State>
  ) {
    self.init()
    EventList.nextIsAsynchronous()
    Self.matching(event, isGuarded: true) { context, values in
      guard Self.passes(`guard`(repeat each values), context) else { return }
      Self.suspend(context) { await transition(repeat each values) }
    }
  }

  /// Leads to another state on any of several events, by and by.
  public init(events: OneOf<Event>, transition: @escaping () async -> Transition<State>) {
    self.init()
    EventList.nextIsAsynchronous()
    guard let context = Self.matching(events) else { return }
    Self.suspend(context, transition)
  }

  /// Leads to another state on any of several events, which the closure receives, by and by.
  public init(events: OneOf<Event>, transition: @escaping (Event) async -> Transition<State>) {
    self.init()
    EventList.nextIsAsynchronous()
    guard let context = Self.matching(events) else { return }
    let event = Self.event(of: context)
    Self.suspend(context) { await transition(event) }
  }
}
