/// A machine's answer to an event.
public enum Reduction<State: Sendable>: Sendable {
  /// The machine moves to this state, and enters it.
  case next(State)
  /// The machine takes an internal transition: it changes the values of its state, and does not
  /// enter the state. The output of the state is not executed, and running effects go on.
  ///
  /// If the state is an enum, the case must stay the same; otherwise the event is refused.
  case stays(State)
  /// The machine consumes the event, and nothing changes. The event is not a step.
  case ignored
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

/// The state that a transition leads to.
@usableFromInline
package struct TransitionTarget<State: Sendable>: Sendable {
  @usableFromInline package let state: State
  /// Whether the transition is internal. If so, the machine does not enter the state.
  @usableFromInline package let isInternal: Bool

  @usableFromInline
  package init(_ state: State, isInternal: Bool = false) {
    self.state = state
    self.isInternal = isInternal
  }

  package func map<Result>(_ change: (State) throws -> Result) rethrows -> TransitionTarget<Result>
  {
    TransitionTarget<Result>(try change(state), isInternal: isInternal)
  }
}

/// An asynchronous transition that has not begun.
public struct SuspendedTransition<State: Sendable>: Sendable {
  // A separate object, so that an answer without a suspended transition stays small.
  private final class Content: Sendable {
    let timeLimit: Duration?
    let run: @Sendable () async throws -> TransitionTarget<State>

    init(_ limit: Duration?, _ run: @escaping @Sendable () async throws -> TransitionTarget<State>)
    {
      self.timeLimit = limit
      self.run = run
    }
  }

  private let content: Content

  /// Creates a transition.
  /// - Parameter limit: The time limit of a self-contained transition: a transition that acts only
  ///   on the machine's own state. Default: `nil`, for a transition that is not declared to be
  ///   self-contained.
  public init(
    within limit: Duration? = nil, _ run: @escaping @Sendable () async throws -> State
  ) {
    content = Content(limit) { TransitionTarget(try await run()) }
  }

  /// Creates a transition that may be internal.
  @usableFromInline
  package init(
    within limit: Duration?,
    target run: @escaping @Sendable () async throws -> TransitionTarget<State>
  ) {
    content = Content(limit, run)
  }

  /// The longest time that the transition may take while its machine takes part in a synchronized
  /// event. `nil` if the author has not declared that the transition is self-contained.
  public var limit: Duration? { content.timeLimit }

  /// Runs the transition.
  /// - Throws: The error of the transition's function. The event is then refused, and the machine
  ///   keeps its state.
  public func callAsFunction() async throws -> State { try await content.run().state }

  /// Runs the transition. Returns the next state, and whether the transition is internal.
  package func target() async throws -> TransitionTarget<State> { try await content.run() }
}

extension Reduction: Equatable where State: Equatable {
  /// Compares states and refusals. A suspended transition is never equal to another answer.
  public static func == (left: Reduction, right: Reduction) -> Bool {
    switch (left, right) {
    case (.next(let left), .next(let right)), (.stays(let left), .stays(let right)): left == right
    case (.ignored, .ignored): true
    case (.refused(let left), .refused(let right)): left == right
    default: false
    }
  }
}
