/// A machine's answer to an event.
public enum Reduction<State: Sendable>: Sendable {
  /// The machine moves to this state.
  case next(State)
  /// The machine refuses the event.
  case refused(Refusal)
  /// The transition is asynchronous. Calling it runs it.
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
  // In an object of its own, so that the answer to an event stays small if nothing is suspended.
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
  /// - Parameter limit: The time limit of a transition that acts on nothing but its own state.
  ///   Default: `nil`, which makes no statement about the transition.
  public init(
    within limit: Duration? = nil, _ run: @escaping @Sendable () async throws -> State
  ) {
    content = Content(limit, run)
  }

  /// The longest time that the transition may take while its machine takes part in a synchronized
  /// event. `nil` if the author has not declared that the transition acts on nothing but its own state.
  public var limit: Duration? { content.limit }

  /// Runs the transition.
  /// - Throws: The error of the transition's function. The event is then refused, and the machine
  ///   keeps its state.
  public func callAsFunction() async throws -> State { try await content.run() }
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
