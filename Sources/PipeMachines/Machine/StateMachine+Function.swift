// Machines that are defined by a function instead of a description of each state. The events that
// such a function accepts cannot be listed, so every event counts as accepted in every state. The
// state can be of any type, such as a struct. The events must be an enum.

extension StateMachine {
  /// Creates a machine from a function that answers events.
  /// - Parameters:
  ///   - initial: The state that the machine starts in.
  ///   - reduce: A pure function that returns the machine's answer to an event. The function is
  ///     called once for each event.
  ///   - output: Returns the output that the runtime executes on entering a state. Default: no
  ///     output.
  @inlinable
  public init(
    initial: State, reduce: @escaping @Sendable (State, Event) -> Reduction<State>,
    output: @escaping @Sendable (State) -> Output? = { _ in nil }
  ) {
    self.init(
      initial: initial,
      step: { state, event in
        let reduction = reduce(state, event)
        guard case .stays(let next) = reduction,
          let refusal = LeftStateError.refusal(from: state, to: next)
        else { return reduction }
        return .refused(refusal)
      }, emit: output)
  }

  /// Creates a machine from a function that returns the next state. The machine accepts every
  /// event.
  @inlinable
  @_disfavoredOverload
  public init(
    initial: State, reduce: @escaping @Sendable (State, Event) -> State,
    output: @escaping @Sendable (State) -> Output? = { _ in nil }
  ) {
    self.init(initial: initial, step: { .next(reduce($0, $1)) }, emit: output)
  }

  /// Creates a machine from a function that returns the next state. The machine refuses an event
  /// for which the function returns the current state.
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

  /// Creates a machine from a function that changes the state. The machine accepts every event for
  /// which the function does not throw. If the function throws, the machine refuses the event with
  /// the error's text, and the state does not change.
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

  /// Creates a machine from a function that changes the state. The machine refuses an event for
  /// which the function changes nothing. If the function throws, the machine refuses the event with
  /// the error's text.
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

  /// Creates a machine from an asynchronous function that returns the next state.
  /// - Parameter selfContained: The events for which the function acts only on the machine's own
  ///   state.
  package init(
    initial: State, awaiting next: @escaping @Sendable (State, Event) async throws -> State,
    selfContained: SelfContainedEvents<Event> = .none,
    output: @escaping @Sendable (State) -> Output? = { _ in nil }
  ) {
    self.init(
      initial: initial,
      step: { state, event in
        .suspended(
          SuspendedTransition(within: selfContained.timeLimit(of: event)) {
            try await next(state, event)
          })
      }, emit: output)
    isAsynchronous = true
    self.selfContainedEvents = selfContained
  }
}
