/// The `On`s of one `When`. It is empty: each `On` has spoken when it was made.
public struct Transitions<State: DSLCompatible, Event> {
  @inlinable
  init() {}
}

/// Reads the transitions of a `When`: `On`s, with `if`, `switch` and `for` where wanted.
@resultBuilder
public enum OnBuilder<State: DSLCompatible, Event> {
  /// The transitions read so far.
  public typealias Block = Transitions<State, Event>

  /// Takes one element.
  @inlinable
  public static func buildExpression(_ on: On<State, Event>) -> Block
  where Event: DSLCompatible { Block() }

  /// Takes an empty body.
  @inlinable
  public static func buildBlock() -> Block { Block() }

  /// Takes the first element.
  @inlinable
  public static func buildPartialBlock(first: Block) -> Block { first }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock(accumulated: Block, next: Block) -> Block { next }

  /// Takes an `if` without `else`.
  @inlinable
  public static func buildOptional(_ block: Block?) -> Block {
    if block == nil { EventList.missBranch() }
    return Block()
  }

  /// Takes the first branch.
  @inlinable
  public static func buildEither(first: Block) -> Block {
    EventList.missBranch()
    return first
  }

  /// Takes the other branch.
  @inlinable
  public static func buildEither(second: Block) -> Block {
    EventList.missBranch()
    return second
  }

  /// Takes a loop.
  @inlinable
  public static func buildArray(_ blocks: [Block]) -> Block {
    if blocks.isEmpty { EventList.missBranch() }
    return Block()
  }
}
