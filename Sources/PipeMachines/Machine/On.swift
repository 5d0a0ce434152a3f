/// What a machine does on an event in the state of the enclosing `When`.
///
/// Events are matched by case: `On(event: Event.moved(to: 3))` matches every `moved`. The first
/// `On` that matches and whose guard passes makes the transition; those after it are not looked at.
///
/// A transition written without `await` runs within the step. An asynchronous one suspends the
/// machine until it has returned; the machine takes no other event meanwhile.
public struct On<State: DSLCompatible, Event: DSLCompatible> {
  @inlinable
  init() {}

  /// Leads to another state on `event`.
  @inlinable
  public init(event: Event, transition: () -> Transition<State>) {
    self.init()
    guard let context = Self.matching(event) else { return }
    Self.finish(context, transition())
  }

  /// Leads to another state on `event`, which the closure receives.
  @inlinable
  public init(event: Event, transition: (Event) -> Transition<State>) {
    self.init()
    guard let context = Self.matching(event) else { return }
    Self.finish(context, transition(Self.event(of: context)))
  }

  /// Leads to another state on `event`, if the guard passes.
  @inlinable
  public init(event: Event, guard: () -> Guard, transition: () -> Transition<State>) {
    self.init()
    guard let context = Self.matching(event, isGuarded: true) else { return }
    guard Self.passes(`guard`(), context) else { return }
    Self.finish(context, transition())
  }

  /// Leads to another state on `event`, which the closures receive, if the guard passes.
  @inlinable
  public init(event: Event, guard: (Event) -> Guard, transition: (Event) -> Transition<State>) {
    self.init()
    guard let context = Self.matching(event, isGuarded: true) else { return }
    let event = Self.event(of: context)
    guard Self.passes(`guard`(event), context) else { return }
    Self.finish(context, transition(event))
  }

  /// Leads to another state on any event of one case, given its associated values.
  @inlinable
  public init<each Value>(
    event: (repeat each Value) -> Event,
    transition: (repeat each Value) -> Transition<State>
  ) {
    self.init()
    Self.matching(event) { context, values in
      Self.finish(context, transition(repeat each values))
    }
  }

  /// Leads to another state on any event of one case, if the guard passes.
  @inlinable
  public init<each Value>(
    event: (repeat each Value) -> Event,
    guard: (repeat each Value) -> Guard,
    transition: (repeat each Value) -> Transition<State>
  ) {
    self.init()
    Self.matching(event, isGuarded: true) { context, values in
      guard Self.passes(`guard`(repeat each values), context) else { return }
      Self.finish(context, transition(repeat each values))
    }
  }
}

extension On {
  /// Leads to another state on any of several events.
  @inlinable
  public init(events: OneOf<Event>, transition: () -> Transition<State>) {
    self.init()
    guard let context = Self.matching(events) else { return }
    Self.finish(context, transition())
  }

  /// Leads to another state on any of several events, which the closure receives.
  @inlinable
  public init(events: OneOf<Event>, transition: (Event) -> Transition<State>) {
    self.init()
    guard let context = Self.matching(events) else { return }
    Self.finish(context, transition(Self.event(of: context)))
  }

  /// Leads to another state on any of several events, if the guard passes.
  @inlinable
  public init(events: OneOf<Event>, guard: () -> Guard, transition: () -> Transition<State>) {
    self.init()
    guard let context = Self.matching(events, isGuarded: true) else { return }
    guard Self.passes(`guard`(), context) else { return }
    Self.finish(context, transition())
  }

  /// Leads to another state on any of several events, which the closures receive.
  @inlinable
  public init(
    events: OneOf<Event>, guard: (Event) -> Guard, transition: (Event) -> Transition<State>
  ) {
    self.init()
    guard let context = Self.matching(events, isGuarded: true) else { return }
    let event = Self.event(of: context)
    guard Self.passes(`guard`(event), context) else { return }
    Self.finish(context, transition(event))
  }
}
