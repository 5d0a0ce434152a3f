/// The condition of an `On`; where it fails, the next `On` for the same event is tried.
public struct Guard {
  @usableFromInline let passes: Bool

  /// Passes where the predicate holds. Evaluated once in a step.
  @inlinable
  public init(predicate: @autoclosure () -> Bool) { passes = predicate() }
}
