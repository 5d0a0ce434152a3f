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
