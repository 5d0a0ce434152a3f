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

/// A result builder for the output of a `When`: one `Execute`, optionally chosen by `if` or `switch`.
@resultBuilder
public enum ExecuteBuilder<Output: DSLCompatible> {
  /// Accepts one element.
  @inlinable
  public static func buildExpression(_ execute: Execute<Output>) -> Execute<Output> { execute }

  /// Accepts the only element.
  @inlinable
  public static func buildBlock(_ execute: Execute<Output>) -> Execute<Output> { execute }

  /// Accepts the first branch of an `if` or `switch`.
  @inlinable
  public static func buildEither(first execute: Execute<Output>) -> Execute<Output> { execute }

  /// Accepts the second branch of an `if` or `switch`.
  @inlinable
  public static func buildEither(second execute: Execute<Output>) -> Execute<Output> { execute }
}

/// The condition of an `On`. If it fails, the machine tries the next `On` for the same event.
public struct Guard {
  @usableFromInline let passes: Bool

  /// Creates a guard that passes if the predicate is `true`. The predicate is evaluated once in
  /// each step.
  @inlinable
  public init(predicate: @autoclosure () -> Bool) { passes = predicate() }
}

/// The state that a step moves to.
public struct Transition<State: DSLCompatible> {
  @usableFromInline let state: State

  /// Creates a transition to `state`. A transition to the current state enters that state again.
  @inlinable
  public init(to state: State) { self.state = state }
}
