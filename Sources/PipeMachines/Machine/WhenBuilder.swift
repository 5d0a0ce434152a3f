/// The `When`s that a builder has collected so far.
public struct Whens<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  @usableFromInline var all: [When<State, Event, Output>]

  @inlinable
  init(_ all: [When<State, Event, Output>] = []) { self.all = all }

  @inlinable
  static func + (left: Self, right: Self) -> Self { Self(left.all + right.all) }

  /// Returns the same `When`s with another event or output type in place of `Never`.
  @inlinable
  func converted<NewEvent, NewOutput>(
    output: @escaping @Sendable (Output) -> NewOutput
  ) -> Whens<State, NewEvent, NewOutput> {
    var converted: [When<State, NewEvent, NewOutput>] = []
    for when in all {
      var emit: When<State, NewEvent, NewOutput>.Emit?
      if let own = when.output { emit = { state in own(state).map(output) } }
      converted.append(
        When<State, NewEvent, NewOutput>(
          tags: when.tags, output: emit, transitions: when.transitions, list: when.list))
    }
    return Whens<State, NewEvent, NewOutput>(converted)
  }
}

/// Converts the outputs of a machine without outputs. Never called, because `Never` has no values.
@inlinable
@Sendable
func none<Output>(_ never: Never) -> Output {}

/// A result builder for a machine whose state, event and output types are known from the context.
@resultBuilder
public enum WhenBuilder<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  /// The `When`s that a builder has collected so far.
  public typealias Block = Whens<State, Event, Output>

  /// Adds a `When`.
  @inlinable
  public static func buildExpression(_ when: When<State, Event, Output>) -> Block { Block([when]) }

  /// Adds a `When`.
  @inlinable
  @_disfavoredOverload
  public static func buildExpression(_ when: When<State, Event, Never>) -> Block {
    Whens([when]).converted(output: none)
  }

  /// Adds a `When`.
  @inlinable
  @_disfavoredOverload
  public static func buildExpression(_ when: When<State, Never, Output>) -> Block {
    Whens([when]).converted(output: { $0 })
  }

  /// Adds a `When`.
  @inlinable
  @_disfavoredOverload
  public static func buildExpression(_ when: When<State, Never, Never>) -> Block {
    Whens([when]).converted(output: none)
  }

  /// Accepts an empty body.
  @inlinable
  public static func buildBlock() -> Block { Block() }

  /// Accepts the first element.
  @inlinable
  public static func buildPartialBlock(first: Block) -> Block { first }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock(accumulated: Block, next: Block) -> Block {
    accumulated + next
  }

  /// Accepts an `if` without `else`.
  @inlinable
  public static func buildOptional(_ block: Block?) -> Block { block ?? Block() }

  /// Accepts the first branch of an `if` or `switch`.
  @inlinable
  public static func buildEither(first: Block) -> Block { first }

  /// Accepts the second branch of an `if` or `switch`.
  @inlinable
  public static func buildEither(second: Block) -> Block { second }

  /// Accepts a loop.
  @inlinable
  public static func buildArray(_ blocks: [Block]) -> Block { Block(blocks.flatMap(\.all)) }
}

/// The `When`s of a machine whose event and output types are inferred from these `When`s.
public struct InferredWhens<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  @usableFromInline let whens: Whens<State, Event, Output>

  @inlinable
  init(whens: Whens<State, Event, Output>) { self.whens = whens }
}

/// A result builder for a machine whose event and output types are inferred from its `When`s alone.
///
/// Swift determines the types of a builder's statements one by one. For a `When` without an output
/// or without transitions, the missing type is `Never`. The builder joins the statements pair by
/// pair, so the type of a later statement can replace `Never`.
@resultBuilder
public enum WhenInferringBuilder<State: DSLCompatible> {
  /// Adds a `When`.
  @inlinable
  public static func buildExpression<E, O>(_ when: When<State, E, O>) -> Whens<State, E, O> {
    Whens([when])
  }

  /// Accepts the first element.
  @inlinable
  public static func buildPartialBlock<E, O>(first: Whens<State, E, O>) -> Whens<State, E, O> {
    first
  }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, O>, next: Whens<State, E, O>
  ) -> Whens<State, E, O> { accumulated + next }

  /// Accepts an `if` without `else`.
  @inlinable
  public static func buildOptional<E, O>(_ block: Whens<State, E, O>?) -> Whens<State, E, O> {
    block ?? Whens()
  }

  /// Accepts the first branch of an `if` or `switch`.
  @inlinable
  public static func buildEither<E, O>(first: Whens<State, E, O>) -> Whens<State, E, O> { first }

  /// Accepts the second branch of an `if` or `switch`.
  @inlinable
  public static func buildEither<E, O>(second: Whens<State, E, O>) -> Whens<State, E, O> { second }

  /// Accepts a loop.
  @inlinable
  public static func buildArray<E, O>(_ blocks: [Whens<State, E, O>]) -> Whens<State, E, O> {
    Whens(blocks.flatMap(\.all))
  }

  /// Returns all `When`s that the builder has collected.
  @inlinable
  public static func buildFinalResult<E, O>(
    _ block: Whens<State, E, O>
  ) -> InferredWhens<State, E, O> { InferredWhens(whens: block) }
}

// One overload for each combination in which the event or output type of `accumulated` or of `next`
// is `Never`. The type of the other argument replaces `Never`, unless that type is `Never`, too.
// For any two arguments, exactly one overload is the best match.
extension WhenInferringBuilder {
  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, Never>, next: Whens<State, E, O>
  ) -> Whens<State, E, O> { accumulated.converted(output: none) + next }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, O>, next: Whens<State, E, Never>
  ) -> Whens<State, E, O> { accumulated + next.converted(output: none) }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, Never, O>, next: Whens<State, E, O>
  ) -> Whens<State, E, O> { accumulated.converted(output: { $0 }) + next }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, O>, next: Whens<State, Never, O>
  ) -> Whens<State, E, O> { accumulated + next.converted(output: { $0 }) }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, Never, Never>, next: Whens<State, E, O>
  ) -> Whens<State, E, O> { accumulated.converted(output: none) + next }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, O>, next: Whens<State, Never, Never>
  ) -> Whens<State, E, O> { accumulated + next.converted(output: none) }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, Never, O>, next: Whens<State, E, Never>
  ) -> Whens<State, E, O> {
    accumulated.converted(output: { $0 }) + next.converted(output: none)
  }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, Never>, next: Whens<State, Never, O>
  ) -> Whens<State, E, O> {
    accumulated.converted(output: none) + next.converted(output: { $0 })
  }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E>(
    accumulated: Whens<State, E, Never>, next: Whens<State, E, Never>
  ) -> Whens<State, E, Never> { accumulated + next }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<O>(
    accumulated: Whens<State, Never, O>, next: Whens<State, Never, O>
  ) -> Whens<State, Never, O> { accumulated + next }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E>(
    accumulated: Whens<State, E, Never>, next: Whens<State, Never, Never>
  ) -> Whens<State, E, Never> { accumulated + next.converted(output: none) }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<E>(
    accumulated: Whens<State, Never, Never>, next: Whens<State, E, Never>
  ) -> Whens<State, E, Never> { accumulated.converted(output: none) + next }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<O>(
    accumulated: Whens<State, Never, O>, next: Whens<State, Never, Never>
  ) -> Whens<State, Never, O> { accumulated + next.converted(output: none) }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock<O>(
    accumulated: Whens<State, Never, Never>, next: Whens<State, Never, O>
  ) -> Whens<State, Never, O> { accumulated.converted(output: none) + next }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock(
    accumulated: Whens<State, Never, Never>, next: Whens<State, Never, Never>
  ) -> Whens<State, Never, Never> { accumulated + next }
}
