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
  /// The longest that it may take where its machine takes part in a synchronized event; `nil` where its
  /// author has not stated that it acts on nothing but its own state.
  public let limit: Duration?
  private let run: @Sendable () async throws -> State

  /// Makes a transition of which nothing is stated.
  public init(_ run: @escaping @Sendable () async throws -> State) {
    limit = nil
    self.run = run
  }

  /// Makes one that acts on nothing but its own state, if there is a limit.
  public init(within limit: Duration?, _ run: @escaping @Sendable () async throws -> State) {
    self.limit = limit
    self.run = run
  }

  /// Runs it.
  /// - Throws: What its function throws: then the event is refused, and the machine stands where it stood.
  public func callAsFunction() async throws -> State { try await run() }
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
