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
