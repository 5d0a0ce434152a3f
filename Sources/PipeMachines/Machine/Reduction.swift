/// The answer of a machine to an event.
public enum Reduction<State: Sendable>: Sendable {
  /// The step leads to this state.
  case next(State)
  /// The event is not taken.
  case refused(Refusal)
  /// The transition is asynchronous; calling the closure runs it.
  case suspended(@Sendable () async -> State)
}

extension Reduction: Equatable where State: Equatable {
  /// Compares states and refusals; a suspended transition equals nothing.
  public static func == (left: Reduction, right: Reduction) -> Bool {
    switch (left, right) {
    case (.next(let left), .next(let right)): left == right
    case (.refused(let left), .refused(let right)): left == right
    default: false
    }
  }
}
