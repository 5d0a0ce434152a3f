// Machines given by a function rather than by what each state does. What such a function takes cannot
// be listed: every event counts as taken in every state. The state can be any type then, such as a
// struct; the events stay an enum.

extension StateMachine {
  /// Describes a machine by a function that answers an event.
  /// - Parameters:
  ///   - initial: The state that the machine starts in.
  ///   - reduce: Pure, and called once for each event.
  ///   - output: What entering a state asks the runtime to do. Default: nothing.
  @inlinable
  public init(
    initial: State, reduce: @escaping @Sendable (State, Event) -> Reduction<State>,
    output: @escaping @Sendable (State) -> Output? = { _ in nil }
  ) {
    self.init(initial: initial, step: reduce, emit: output)
  }

  /// Describes a machine by a function that returns the next state. It takes every event.
  @inlinable
  @_disfavoredOverload
  public init(
    initial: State, reduce: @escaping @Sendable (State, Event) -> State,
    output: @escaping @Sendable (State) -> Output? = { _ in nil }
  ) {
    self.init(initial: initial, step: { .next(reduce($0, $1)) }, emit: output)
  }

  /// Describes a machine by a function that returns the next state. An event for which it returns the
  /// state as it is, is refused.
  @inlinable
  public init(
    initial: State, reduce: @escaping @Sendable (State, Event) -> State,
    output: @escaping @Sendable (State) -> Output? = { _ in nil }
  ) where State: Equatable {
    self.init(
      initial: initial,
      step: { state, event in
        let next = reduce(state, event)
        return next == state ? .refused(.noTransition) : .next(next)
      }, emit: output)
  }

  /// Describes a machine by a function that changes the state. It takes every event but those for which
  /// it throws: these are refused with the error's text, and change nothing.
  @inlinable
  @_disfavoredOverload
  public init(
    initial: State, reducer: @escaping @Sendable (inout State, Event) throws -> Void,
    output: @escaping @Sendable (State) -> Output? = { _ in nil }
  ) {
    self.init(
      initial: initial,
      step: { state, event in
        var next = state
        do { try reducer(&next, event) } catch { return .refused(.thrown(by: error)) }
        return .next(next)
      }, emit: output)
  }

  /// Describes a machine by a function that changes the state. An event for which it changes nothing is
  /// refused, and so is one for which it throws, with the error's text.
  @inlinable
  public init(
    initial: State, reducer: @escaping @Sendable (inout State, Event) throws -> Void,
    output: @escaping @Sendable (State) -> Output? = { _ in nil }
  ) where State: Equatable {
    self.init(
      initial: initial,
      step: { state, event in
        var next = state
        do { try reducer(&next, event) } catch { return .refused(.thrown(by: error)) }
        return next == state ? .refused(.noTransition) : .next(next)
      }, emit: output)
  }

  /// Describes a machine by a function that takes its time for each event.
  /// - Parameter selfContained: The events for which it acts on nothing but its own state.
  package init(
    initial: State, awaiting next: @escaping @Sendable (State, Event) async throws -> State,
    selfContained: SelfContainedEvents<Event> = .none,
    output: @escaping @Sendable (State) -> Output? = { _ in nil }
  ) {
    self.init(
      initial: initial,
      step: { state, event in
        .suspended(
          SuspendedTransition(within: selfContained.limit(of: event)) {
            try await next(state, event)
          })
      }, emit: output)
    isAsynchronous = true
    self.selfContained = selfContained
  }
}
