// Machines given by a function rather than by what each state does. What such a function takes cannot
// be listed: every event counts as taken in every state.

extension StateMachine {
  /// Describes a machine by a function.
  ///
  /// The state can be any type then, such as a struct. The events stay an enum.
  /// - Parameters:
  ///   - initial: The state that the machine starts in.
  ///   - reduce: Answers an event. Pure, and called once for each.
  ///   - output: What entering a state asks the runtime to do. Default: nothing.
  @inlinable
  public init(
    initial: State, reduce: @escaping @Sendable (State, Event) -> Reduction<State>,
    output: @escaping @Sendable (State) -> Output? = { _ in nil }
  ) {
    self.init(initial: initial, step: reduce, emit: output)
  }
}
