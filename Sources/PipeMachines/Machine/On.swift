/// What a machine does on an event in the state of the enclosing `When`.
///
/// Events are matched by case: `On(event: Event.moved(to: 3))` matches every `moved`. The first
/// `On` that matches and whose guard passes makes the transition; those after it are not looked at.
///
/// A transition written without `await` runs within the step. An asynchronous one suspends the
/// machine until it has returned; the machine takes no other event meanwhile.
///
/// An `On` is a value: it can be kept in a variable or a list, and does something where a `When`
/// lists it, and nowhere else.
///
/// ```swift
/// let onReset = On(event: Event.reset) { Transition(to: State.idle) }
/// When(state: State.failed) { Execute.noOutput } transitions: { onReset }
/// ```
public struct On<State: DSLCompatible, Event: DSLCompatible>: Sendable {
  /// Compares it with the event of the step that the thread is in; `nil` where that was done when it
  /// was made.
  @usableFromInline let read: (@Sendable () -> Void)?
  /// Whether its asynchronous transition is that of the step, where it was compared when it was made.
  var hasSuspended = false

  @inlinable
  init(read: (@Sendable () -> Void)?) { self.read = read }
}

/// Stands for the events in the type of an `On` that is written straight into the closure of a `When`:
/// such a one is compared with the event while it is made, and keeps nothing.
///
/// Swift finds it where it is meant. An `On` that is kept has the events themselves there.
public enum Listed<Event: DSLCompatible, Builder>: DSLCompatible {}

// In what follows, `nonisolated(unsafe)` hands closures over to an `On`: they came as `sending`, so
// nobody else holds what they captured, and what a `When` calls must be pure.

// An event given as a value.
extension On {
  /// Leads to another state on `event`.
  @inlinable
  public init(event: Event, transition: sending @escaping () -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      _ = On<State, Listed<Event, Never>>(event: event, transition: transition)
    }
  }

  /// Leads to another state on `event`.
  @inlinable
  public init<Taken, Builder>(event: Taken, transition: () -> Transition<State>)
  where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(event) else { return }
    Matching<State, Taken>.finish(context, transition())
  }

  /// Leads to another state on `event`, which the closure receives.
  @inlinable
  public init(event: Event, transition: sending @escaping (Event) -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      _ = On<State, Listed<Event, Never>>(event: event, transition: transition)
    }
  }

  /// Leads to another state on `event`, which the closure receives.
  @inlinable
  public init<Taken, Builder>(event: Taken, transition: (Taken) -> Transition<State>)
  where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(event) else { return }
    Matching<State, Taken>.finish(context, transition(Matching<State, Taken>.event(of: context)))
  }

  /// Leads to another state on `event`, if the guard passes.
  @inlinable
  public init(
    event: Event, guard: sending @escaping () -> Guard,
    transition: sending @escaping () -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(event: event, guard: `guard`, transition: transition)
    }
  }

  /// Leads to another state on `event`, if the guard passes.
  @inlinable
  public init<Taken, Builder>(
    event: Taken, guard: () -> Guard, transition: () -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(event, isGuarded: true) else { return }
    guard Matching<State, Taken>.passes(`guard`(), context) else { return }
    Matching<State, Taken>.finish(context, transition())
  }

  /// Leads to another state on `event`, which the closures receive, if the guard passes.
  @inlinable
  public init(
    event: Event, guard: sending @escaping (Event) -> Guard,
    transition: sending @escaping (Event) -> Transition<State>
  ) {
    nonisolated(unsafe) let (`guard`, transition) = (`guard`, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(event: event, guard: `guard`, transition: transition)
    }
  }

  /// Leads to another state on `event`, which the closures receive, if the guard passes.
  @inlinable
  public init<Taken, Builder>(
    event: Taken, guard: (Taken) -> Guard, transition: (Taken) -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(event, isGuarded: true) else { return }
    let event = Matching<State, Taken>.event(of: context)
    guard Matching<State, Taken>.passes(`guard`(event), context) else { return }
    Matching<State, Taken>.finish(context, transition(event))
  }
}

// An event given by its constructor.
extension On {
  /// Leads to another state on any event of one case, given its associated values.
  @inlinable
  public init<each Value>(
    event: sending @escaping (repeat each Value) -> Event,
    transition: sending @escaping (repeat each Value) -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, transition) = (event, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(event: event, transition: transition)
    }
  }

  /// Leads to another state on any event of one case, given its associated values.
  @inlinable
  public init<Taken, Builder, each Value>(
    event: (repeat each Value) -> Taken,
    transition: (repeat each Value) -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    Matching<State, Taken>.matching(event) { context, values in
      Matching<State, Taken>.finish(context, transition(repeat each values))
    }
  }

  /// Leads to another state on any event of one case, if the guard passes.
  @inlinable
  public init<each Value>(
    event: sending @escaping (repeat each Value) -> Event,
    guard: sending @escaping (repeat each Value) -> Guard,
    transition: sending @escaping (repeat each Value) -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, `guard`, transition) = (event, `guard`, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(event: event, guard: `guard`, transition: transition)
    }
  }

  /// Leads to another state on any event of one case, if the guard passes.
  @inlinable
  public init<Taken, Builder, each Value>(
    event: (repeat each Value) -> Taken,
    guard: (repeat each Value) -> Guard,
    transition: (repeat each Value) -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    Matching<State, Taken>.matching(event, isGuarded: true) { context, values in
      guard Matching<State, Taken>.passes(`guard`(repeat each values), context) else { return }
      Matching<State, Taken>.finish(context, transition(repeat each values))
    }
  }
}

// A case that carries one value, spelled out beside the parameter packs: Swift 6.3 crashes where a
// value in a pack is itself a tuple or a function.
extension On {
  /// Leads to another state on any event of one case, given its associated value.
  @inlinable
  public init<Value>(
    event: sending @escaping (Value) -> Event,
    transition: sending @escaping (Value) -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, transition) = (event, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(event: event, transition: transition)
    }
  }

  /// Leads to another state on any event of one case, given its associated value.
  @inlinable
  public init<Taken, Builder, Value>(
    event: (Value) -> Taken, transition: (Value) -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    Matching<State, Taken>.matchingOne(event) { context, value in
      Matching<State, Taken>.finish(context, transition(value))
    }
  }

  /// Leads to another state on any event of one case, if the guard passes.
  @inlinable
  public init<Value>(
    event: sending @escaping (Value) -> Event, guard: sending @escaping (Value) -> Guard,
    transition: sending @escaping (Value) -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, `guard`, transition) = (event, `guard`, transition)
    self.init {
      _ = On<State, Listed<Event, Never>>(event: event, guard: `guard`, transition: transition)
    }
  }

  /// Leads to another state on any event of one case, if the guard passes.
  @inlinable
  public init<Taken, Builder, Value>(
    event: (Value) -> Taken, guard: (Value) -> Guard, transition: (Value) -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    Matching<State, Taken>.matchingOne(event, isGuarded: true) { context, value in
      guard Matching<State, Taken>.passes(`guard`(value), context) else { return }
      Matching<State, Taken>.finish(context, transition(value))
    }
  }

  /// Leads to another state on any event of one case, by and by.
  public init<Value>(
    event: sending @escaping (Value) -> Event,
    transition: sending @escaping (Value) async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, transition) = (event, transition)
    self.init {
      EventList.nextIsAsynchronous()
      Matching<State, Event>.matchingOne(event) { context, value in
        Matching<State, Event>.suspend(context) { try await transition(value) }
      }
    }
  }

  /// Leads to another state on any event of one case, by and by, if the guard passes.
  public init<Value>(
    event: sending @escaping (Value) -> Event, guard: sending @escaping (Value) -> Guard,
    transition: sending @escaping (Value) async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, `guard`, transition) = (event, `guard`, transition)
    self.init {
      EventList.nextIsAsynchronous()
      Matching<State, Event>.matchingOne(event, isGuarded: true) { context, value in
        guard Matching<State, Event>.passes(`guard`(value), context) else { return }
        Matching<State, Event>.suspend(context) { try await transition(value) }
      }
    }
  }
}
