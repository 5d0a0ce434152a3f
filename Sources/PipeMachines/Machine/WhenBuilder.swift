/// The states read so far by a builder.
public struct Whens<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  @usableFromInline var all: [When<State, Event, Output>]

  @inlinable
  init(_ all: [When<State, Event, Output>] = []) { self.all = all }

  @inlinable
  static func + (left: Self, right: Self) -> Self { Self(left.all + right.all) }

  /// The same states in a machine that has events or outputs where these have none.
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

/// Stands where an output of a machine without outputs would be converted.
@inlinable
@Sendable
func none<Output>(_ never: Never) -> Output {}

/// Reads a machine whose three types are known from where it is written.
@resultBuilder
public enum WhenBuilder<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  /// The states read so far.
  public typealias Block = Whens<State, Event, Output>

  /// Takes one element.
  @inlinable
  public static func buildExpression(_ when: When<State, Event, Output>) -> Block { Block([when]) }

  /// Takes one element.
  @inlinable
  @_disfavoredOverload
  public static func buildExpression(_ when: When<State, Event, Never>) -> Block {
    Whens([when]).converted(output: none)
  }

  /// Takes one element.
  @inlinable
  @_disfavoredOverload
  public static func buildExpression(_ when: When<State, Never, Output>) -> Block {
    Whens([when]).converted(output: { $0 })
  }

  /// Takes one element.
  @inlinable
  @_disfavoredOverload
  public static func buildExpression(_ when: When<State, Never, Never>) -> Block {
    Whens([when]).converted(output: none)
  }

  /// Takes an empty body.
  @inlinable
  public static func buildBlock() -> Block { Block() }

  /// Takes the first element.
  @inlinable
  public static func buildPartialBlock(first: Block) -> Block { first }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock(accumulated: Block, next: Block) -> Block {
    accumulated + next
  }

  /// Takes an `if` without `else`.
  @inlinable
  public static func buildOptional(_ block: Block?) -> Block { block ?? Block() }

  /// Takes the first branch.
  @inlinable
  public static func buildEither(first: Block) -> Block { first }

  /// Takes the other branch.
  @inlinable
  public static func buildEither(second: Block) -> Block { second }

  /// Takes a loop.
  @inlinable
  public static func buildArray(_ blocks: [Block]) -> Block { Block(blocks.flatMap(\.all)) }
}

/// The states of a machine whose types they tell.
public struct InferredWhens<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible> {
  @usableFromInline let whens: Whens<State, Event, Output>

  @inlinable
  init(whens: Whens<State, Event, Output>) { self.whens = whens }
}

/// Reads a machine whose event and output types are told by its `When`s alone.
///
/// Swift types a builder's statements one by one. A `When` that has no output, or no transitions,
/// leaves a type open as `Never`; joining the statements pair by pair lets a later one fill it in.
@resultBuilder
public enum WhenInferringBuilder<State: DSLCompatible> {
  /// Takes one element.
  @inlinable
  public static func buildExpression<E, O>(_ when: When<State, E, O>) -> Whens<State, E, O> {
    Whens([when])
  }

  /// Takes the first element.
  @inlinable
  public static func buildPartialBlock<E, O>(first: Whens<State, E, O>) -> Whens<State, E, O> {
    first
  }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, O>, next: Whens<State, E, O>
  ) -> Whens<State, E, O> { accumulated + next }

  /// Takes an `if` without `else`.
  @inlinable
  public static func buildOptional<E, O>(_ block: Whens<State, E, O>?) -> Whens<State, E, O> {
    block ?? Whens()
  }

  /// Takes the first branch.
  @inlinable
  public static func buildEither<E, O>(first: Whens<State, E, O>) -> Whens<State, E, O> { first }

  /// Takes the other branch.
  @inlinable
  public static func buildEither<E, O>(second: Whens<State, E, O>) -> Whens<State, E, O> { second }

  /// Takes a loop.
  @inlinable
  public static func buildArray<E, O>(_ blocks: [Whens<State, E, O>]) -> Whens<State, E, O> {
    Whens(blocks.flatMap(\.all))
  }

  /// Ends the body.
  @inlinable
  public static func buildFinalResult<E, O>(
    _ block: Whens<State, E, O>
  ) -> InferredWhens<State, E, O> { InferredWhens(whens: block) }
}

// The ways in which one side leaves a type open that the other fills in or leaves open, too: for any two
// sides one of these fits better than all others.
extension WhenInferringBuilder {
  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, Never>, next: Whens<State, E, O>
  ) -> Whens<State, E, O> { accumulated.converted(output: none) + next }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, O>, next: Whens<State, E, Never>
  ) -> Whens<State, E, O> { accumulated + next.converted(output: none) }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, Never, O>, next: Whens<State, E, O>
  ) -> Whens<State, E, O> { accumulated.converted(output: { $0 }) + next }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, O>, next: Whens<State, Never, O>
  ) -> Whens<State, E, O> { accumulated + next.converted(output: { $0 }) }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, Never, Never>, next: Whens<State, E, O>
  ) -> Whens<State, E, O> { accumulated.converted(output: none) + next }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, O>, next: Whens<State, Never, Never>
  ) -> Whens<State, E, O> { accumulated + next.converted(output: none) }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, Never, O>, next: Whens<State, E, Never>
  ) -> Whens<State, E, O> {
    accumulated.converted(output: { $0 }) + next.converted(output: none)
  }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E, O>(
    accumulated: Whens<State, E, Never>, next: Whens<State, Never, O>
  ) -> Whens<State, E, O> {
    accumulated.converted(output: none) + next.converted(output: { $0 })
  }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E>(
    accumulated: Whens<State, E, Never>, next: Whens<State, E, Never>
  ) -> Whens<State, E, Never> { accumulated + next }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<O>(
    accumulated: Whens<State, Never, O>, next: Whens<State, Never, O>
  ) -> Whens<State, Never, O> { accumulated + next }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E>(
    accumulated: Whens<State, E, Never>, next: Whens<State, Never, Never>
  ) -> Whens<State, E, Never> { accumulated + next.converted(output: none) }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<E>(
    accumulated: Whens<State, Never, Never>, next: Whens<State, E, Never>
  ) -> Whens<State, E, Never> { accumulated.converted(output: none) + next }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<O>(
    accumulated: Whens<State, Never, O>, next: Whens<State, Never, Never>
  ) -> Whens<State, Never, O> { accumulated + next.converted(output: none) }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock<O>(
    accumulated: Whens<State, Never, Never>, next: Whens<State, Never, O>
  ) -> Whens<State, Never, O> { accumulated.converted(output: none) + next }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock(
    accumulated: Whens<State, Never, Never>, next: Whens<State, Never, Never>
  ) -> Whens<State, Never, Never> { accumulated + next }
}
