/// The state that a step leads to.
public struct Transition<State: DSLCompatible> {
  @usableFromInline let state: State

  /// Leads to `state`; the same state again is an entry too.
  @inlinable
  public init(to state: State) { self.state = state }
}
