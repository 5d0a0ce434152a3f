/// The output of a state, executed each time the state is entered.
public struct Execute<Output: DSLCompatible> {
  @usableFromInline let output: Output?

  @inlinable
  init(_ output: Output?) { self.output = output }

  /// Executes the effect that the runtime maps to `output`.
  @inlinable
  public init(output: Output) { self.output = output }

  /// An `Execute` without an output.
  @inlinable
  public static var noOutput: Execute<Output> { Execute(nil) }
}

extension Execute where Output == Never {
  /// An `Execute` without an output, for code from which Swift cannot infer the output type.
  @inlinable
  public static var noOutput: Execute<Never> { Execute(nil) }
}

/// A result builder for the output of a `When`: one `Execute`, which an `if` or `switch` may
/// choose.
@resultBuilder
public enum ExecuteBuilder<Output: DSLCompatible> {
  /// Accepts one `Execute`.
  @inlinable
  public static func buildExpression(_ execute: Execute<Output>) -> Execute<Output> { execute }

  /// Accepts the only `Execute` of the block.
  @inlinable
  public static func buildBlock(_ execute: Execute<Output>) -> Execute<Output> { execute }

  /// Accepts the first branch of an `if` or `switch`.
  @inlinable
  public static func buildEither(first execute: Execute<Output>) -> Execute<Output> { execute }

  /// Accepts the second branch of an `if` or `switch`.
  @inlinable
  public static func buildEither(second execute: Execute<Output>) -> Execute<Output> { execute }
}

/// The condition of an `On`. If the condition is false, the machine tries the next `On` for the
/// same event.
public struct Guard {
  @usableFromInline let passes: Bool

  /// Creates a guard that passes if the predicate is `true`. The predicate is evaluated once in
  /// each step.
  @inlinable
  public init(predicate: @autoclosure () -> Bool) { passes = predicate() }
}

/// The state that a transition leads to.
public struct Transition<State: DSLCompatible> {
  @usableFromInline let state: State
  /// Whether the transition is internal. If so, the machine does not enter the state.
  @usableFromInline let isInternal: Bool

  /// Creates a transition to `state`. A transition to the current state enters that state again;
  /// ``Stay(_:)`` does not.
  @inlinable
  public init(to state: State) { self.init(state, isInternal: false) }

  @inlinable
  init(_ state: State, isInternal: Bool) {
    self.state = state
    self.isInternal = isInternal
  }
}

/// Creates an internal transition: the machine changes the values of its state, but does not leave
/// the state.
///
/// The transition is a step, and increases the version by 1. The output of the state is not
/// executed again. Running effects and timers go on. Rules that wait for an entry into the state do
/// not fire.
///
/// ```swift
/// When(state: State.heating(degrees:)) { _ in
///   Execute(output: Output.boil)
/// } transitions: { degrees in
///   On(event: Event.degreesRose) { Stay { State.heating(degrees: degrees + 1) } }
/// }
/// ```
/// - Parameter state: Returns the state with its new values. The case must stay the same; otherwise
///   the machine refuses the event with an error that names both cases.
@inlinable
public func Stay<State: DSLCompatible>(_ state: () -> State) -> Transition<State> {
  Transition(state(), isInternal: true)
}

/// The error of an internal transition that would leave its state.
@usableFromInline
struct LeftStateError: Error, CustomStringConvertible {
  @usableFromInline let description: String

  /// Returns the refusal of an internal transition to a state of another case. Returns `nil` if
  /// both states have the same case, or if the state type is not an enum.
  @usableFromInline
  static func refusal<State>(from state: State, to next: State) -> Refusal? {
    guard let (tag, nextTag) = tags(state, next), tag != nextTag else { return nil }
    let names = EnumCases<State>.names
    return .thrown(
      by: LeftStateError(
        description: "'Stay' in state '\(names[tag])' leads to state '\(names[nextTag])'; write "
          + "'Transition(to:)' to leave the state"))
  }

  private static func tags<State>(_ state: State, _ next: State) -> (Int, Int)? {
    guard let tag = EnumCases<State>.tag(of: state), let next = EnumCases<State>.tag(of: next)
    else {
      return nil
    }
    return (tag, next)
  }
}
