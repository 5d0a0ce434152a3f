/// The output of a state, executed each time the state is entered.
public struct Execute<Output: DSLCompatible> {
  @usableFromInline let output: Output?

  @inlinable
  init(_ output: Output?) { self.output = output }

  /// Executes the effect that the runtime maps to `output`.
  @inlinable
  public init(output: Output) { self.output = output }

  /// Executes nothing.
  @inlinable
  public static var noOutput: Execute<Output> { Execute(nil) }
}

extension Execute where Output == Never {
  /// Executes nothing, where nothing else tells the type of the outputs.
  @inlinable
  public static var noOutput: Execute<Never> { Execute(nil) }
}

/// Reads the body of a `When`: one `Execute`, chosen by `if` or `switch` where wanted.
@resultBuilder
public enum ExecuteBuilder<Output: DSLCompatible> {
  /// Takes one element.
  @inlinable
  public static func buildExpression(_ execute: Execute<Output>) -> Execute<Output> { execute }

  /// Takes the only element.
  @inlinable
  public static func buildBlock(_ execute: Execute<Output>) -> Execute<Output> { execute }

  /// Takes the first branch.
  @inlinable
  public static func buildEither(first execute: Execute<Output>) -> Execute<Output> { execute }

  /// Takes the other branch.
  @inlinable
  public static func buildEither(second execute: Execute<Output>) -> Execute<Output> { execute }
}

/// The condition of an `On`; where it fails, the next `On` for the same event is tried.
public struct Guard {
  @usableFromInline let passes: Bool

  /// Passes where the predicate holds. Evaluated once in a step.
  @inlinable
  public init(predicate: @autoclosure () -> Bool) { passes = predicate() }
}

/// The state that a step leads to.
public struct Transition<State: DSLCompatible> {
  @usableFromInline let state: State

  /// Leads to `state`; the same state again is an entry too.
  @inlinable
  public init(to state: State) { self.state = state }
}
