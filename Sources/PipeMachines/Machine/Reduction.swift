/// A machine's answer to an event.
public enum Reduction<State: Sendable>: Sendable {
  /// The machine moves to this state.
  case next(State)
  /// The machine refuses the event.
  case refused(Refusal)
  /// The transition is asynchronous. Call the associated value to run the transition.
  case suspended(SuspendedTransition<State>)
}

extension Reduction {
  /// Creates an answer for an asynchronous transition.
  public static func suspended(_ run: @escaping @Sendable () async throws -> State) -> Self {
    .suspended(SuspendedTransition(run))
  }
}

/// An asynchronous transition that has not begun.
public struct SuspendedTransition<State: Sendable>: Sendable {
  // A separate object, so that an answer without a suspended transition stays small.
  private final class Content: Sendable {
    let limit: Duration?
    let run: @Sendable () async throws -> State

    init(_ limit: Duration?, _ run: @escaping @Sendable () async throws -> State) {
      self.limit = limit
      self.run = run
    }
  }

  private let content: Content

  /// Creates a transition.
  /// - Parameter limit: The time limit of a self-contained transition, which acts only on the
  ///   machine's own state. Default: `nil`, which means that the transition may not be
  ///   self-contained.
  public init(
    within limit: Duration? = nil, _ run: @escaping @Sendable () async throws -> State
  ) {
    content = Content(limit, run)
  }

  /// The longest time that the transition may take while its machine takes part in a synchronized
  /// event. `nil` if the author has not declared that the transition is self-contained.
  public var limit: Duration? { content.limit }

  /// Runs the transition.
  /// - Throws: The error of the transition's function. The event is then refused, and the machine
  ///   keeps its state.
  public func callAsFunction() async throws -> State { try await content.run() }
}

extension Reduction: Equatable where State: Equatable {
  /// Compares states and refusals. A suspended transition is never equal to another answer.
  public static func == (left: Reduction, right: Reduction) -> Bool {
    switch (left, right) {
    case (.next(let left), .next(let right)): left == right
    case (.refused(let left), .refused(let right)): left == right
    default: false
    }
  }
}
