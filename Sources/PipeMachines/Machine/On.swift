/// The response of a machine to an event in the state of the enclosing `When`.
///
/// Events are matched by case: `On(event: Event.moved(to: 3))` matches every `moved`. The first
/// `On` that matches and whose guard passes makes the transition. Later `On`s are not tried.
///
/// A transition written without `await` runs within the step. An asynchronous transition suspends
/// the machine until the transition returns. A suspended machine accepts no other event.
///
/// You can store an `On` in a variable or a list. The machine uses a stored `On` only if a `When`
/// lists the `On`.
///
/// ```swift
/// let onReset = On(event: Event.reset) { Transition(to: State.idle) }
/// When(state: State.failed) { Execute.noOutput } transitions: { onReset }
/// ```
public struct On<State: DSLCompatible, Event: DSLCompatible>: Sendable {
  /// Compares the `On` with the event of the current thread's step. `nil` if the `On` was compared
  /// when it was created.
  @usableFromInline let read: (@Sendable () -> Void)?
  /// Whether this `On`, when it was created, suspended the current step with its asynchronous
  /// transition.
  var hasSuspended = false

  @inlinable
  init(read: (@Sendable () -> Void)?) { self.read = read }
}

/// A placeholder for the event type of an `On` that is written directly in the closure of a `When`.
/// Such an `On` is compared with the event while it is created, and stores nothing.
///
/// Swift infers this type for such an `On`. For a stored `On`, Swift infers the event type itself.
public enum Listed<Event: DSLCompatible, Builder>: DSLCompatible {}

// In the code below, `nonisolated(unsafe)` lets an `On` store a closure, which a `When` may then
// call on any thread. This is safe: such closures must be pure, and since they are `sending`, no
// other code can access their captures.

// Transitions on an event that is given as a value.
extension On {
  /// Creates a transition on `event`.
  @inlinable
  public init(event: Event, transition: sending @escaping () -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      _ = On<State, Listed<Event, Never>>(event: event, transition: transition)
    }
  }

  /// Creates a transition on `event`.
  @inlinable
  public init<Taken, Builder>(event: Taken, transition: () -> Transition<State>)
  where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(event) else { return }
    Matching<State, Taken>.finish(context, transition())
  }

  /// Creates a transition on `event`, and passes the event to the closure.
  @inlinable
  public init(event: Event, transition: sending @escaping (Event) -> Transition<State>) {
    nonisolated(unsafe) let transition = transition
    self.init {
      _ = On<State, Listed<Event, Never>>(event: event, transition: transition)
    }
  }

  /// Creates a transition on `event`, and passes the event to the closure.
  @inlinable
  public init<Taken, Builder>(event: Taken, transition: (Taken) -> Transition<State>)
  where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(event) else { return }
    Matching<State, Taken>.finish(context, transition(Matching<State, Taken>.event(of: context)))
  }

  /// Creates a transition on `event` with a guard.
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

  /// Creates a transition on `event` with a guard.
  @inlinable
  public init<Taken, Builder>(
    event: Taken, guard: () -> Guard, transition: () -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    guard let context = Matching<State, Taken>.matching(event, isGuarded: true) else { return }
    guard Matching<State, Taken>.passes(`guard`(), context) else { return }
    Matching<State, Taken>.finish(context, transition())
  }

  /// Creates a transition on `event` with a guard, and passes the event to both closures.
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

  /// Creates a transition on `event` with a guard, and passes the event to both closures.
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

// Transitions on events of one case, which is given by its constructor.
extension On {
  /// Creates a transition on any event of one case, and passes the associated values to the
  /// closure.
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

  /// Creates a transition on any event of one case, and passes the associated values to the
  /// closure.
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

  /// Creates a transition on any event of one case with a guard, and passes the associated values
  /// to both closures.
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

  /// Creates a transition on any event of one case with a guard, and passes the associated values
  /// to both closures.
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

// Overloads for a case with one value, in addition to the overloads with parameter packs: Swift 6.3
// crashes if a value in a pack is itself a tuple or a function.
extension On {
  /// Creates a transition on any event of one case, and passes the associated value to the closure.
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

  /// Creates a transition on any event of one case, and passes the associated value to the closure.
  @inlinable
  public init<Taken, Builder, Value>(
    event: (Value) -> Taken, transition: (Value) -> Transition<State>
  ) where Event == Listed<Taken, Builder> {
    self.init(read: nil)
    Matching<State, Taken>.matchingOne(event) { context, value in
      Matching<State, Taken>.finish(context, transition(value))
    }
  }

  /// Creates a transition on any event of one case with a guard, and passes the
  /// associated value to both closures.
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

  /// Creates a transition on any event of one case with a guard, and passes the
  /// associated value to both closures.
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

  /// Creates an asynchronous transition on any event of one case.
  public init<Value>(
    event: sending @escaping (Value) -> Event,
    transition: sending @escaping (Value) async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, transition) = (event, transition)
    self.init {
      EventList.markNextAsynchronous()
      Matching<State, Event>.matchingOne(event) { context, value in
        Matching<State, Event>.suspend(context) { try await transition(value) }
      }
    }
  }

  /// Creates an asynchronous transition on any event of one case with a guard.
  public init<Value>(
    event: sending @escaping (Value) -> Event, guard: sending @escaping (Value) -> Guard,
    transition: sending @escaping (Value) async throws -> Transition<State>
  ) {
    nonisolated(unsafe) let (event, `guard`, transition) = (event, `guard`, transition)
    self.init {
      EventList.markNextAsynchronous()
      Matching<State, Event>.matchingOne(event, isGuarded: true) { context, value in
        guard Matching<State, Event>.passes(`guard`(value), context) else { return }
        Matching<State, Event>.suspend(context) { try await transition(value) }
      }
    }
  }
}
