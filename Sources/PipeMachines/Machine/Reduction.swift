/// The answer of a machine to an event.
public enum Reduction<State: Sendable>: Sendable {
  /// The step leads to this state.
  case next(State)
  /// The event is not taken.
  case refused(Refusal)
  /// The transition is asynchronous; calling it runs it.
  case suspended(SuspendedTransition<State>)
}

extension Reduction {
  /// The transition is asynchronous.
  public static func suspended(_ run: @escaping @Sendable () async throws -> State) -> Self {
    .suspended(SuspendedTransition(run))
  }
}

/// An asynchronous transition that has not begun.
public struct SuspendedTransition<State: Sendable>: Sendable {
  // Apart, so that the answer to an event stays small where nothing is suspended.
  private final class Content: Sendable {
    let limit: Duration?
    let run: @Sendable () async throws -> State

    init(_ limit: Duration?, _ run: @escaping @Sendable () async throws -> State) {
      self.limit = limit
      self.run = run
    }
  }

  private let content: Content

  /// Makes a transition.
  /// - Parameter limit: How long it may take, where it acts on nothing but its own state. Default: `nil`,
  ///   which states nothing.
  public init(
    within limit: Duration? = nil, _ run: @escaping @Sendable () async throws -> State
  ) {
    content = Content(limit, run)
  }

  /// The longest that it may take where its machine takes part in a synchronized event; `nil` where its
  /// author has not stated that it acts on nothing but its own state.
  public var limit: Duration? { content.limit }

  /// Runs it.
  /// - Throws: What its function throws: then the event is refused, and the machine stands where it stood.
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
