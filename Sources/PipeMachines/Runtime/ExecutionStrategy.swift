/// How long a running effect outlives the state that started it.
///
/// The strategy is looked at on each entry into a state, the same state included, before the
/// output of that state starts.
public struct ExecutionStrategy<State: DSLCompatible>: Sendable {
  let cancels: @Sendable (State) -> Bool

  /// Goes on whatever state is entered.
  public static var continueWhenAnyState: Self { Self { _ in false } }

  /// Is cancelled by the next entry.
  public static var cancelWhenAnyState: Self { Self { _ in true } }

  /// Is cancelled by an entry into the case that `state` is, whatever its associated values.
  public static func cancel(when state: State) -> Self {
    let pattern = CasePattern(value: state)
    return Self { pattern.matches($0) }
  }

  /// Is cancelled by an entry into the case of this constructor.
  public static func cancel<each Value>(when state: (repeat each Value) -> State) -> Self {
    let pattern = CasePattern(constructor: state)
    return Self { pattern.matches($0) }
  }

  /// Is cancelled by an entry into one of several cases.
  public static func cancel(when states: OneOf<State>) -> Self { Self { states.contains($0) } }

  /// Is cancelled by an entry into a state that the predicate holds for.
  public static func cancel(when predicate: @escaping @Sendable (State) -> Bool) -> Self {
    Self(cancels: predicate)
  }
}
