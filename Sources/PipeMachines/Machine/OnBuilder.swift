/// The transitions of one `When`, as its closure lists them.
///
/// A closure that uses `return` can return an array literal of `On`s instead.
///
/// ```swift
/// When(state: State.failed) { Execute.noOutput } transitions: {
///   return [On(event: Event.reset) { Transition(to: State.idle) }]
/// }
/// ```
public struct Transitions<State: DSLCompatible, Event: DSLCompatible>: Sendable {
  // `On`s that are not read yet. A builder reads its `On`s while it lists them, and stores none here.
  @usableFromInline let storedOns: [On<State, Event>]?

  @inlinable
  init() { storedOns = nil }

  /// Lists `On`s.
  @inlinable
  public init(_ list: [On<State, Event>]) { storedOns = list }

  /// Compares the `On`s that are not read yet with the event of the current thread's step.
  @inlinable
  func read() {
    if let storedOns { Self.read(storedOns) }
  }

  @usableFromInline
  static func read(_ list: [On<State, Event>]) {
    for on in list { on.read?() }
    if list.isEmpty { EventList.recordSkippedBranch() }
  }
}

extension Transitions: ExpressibleByArrayLiteral {
  /// Lists `On`s.
  @inlinable
  public init(arrayLiteral list: On<State, Event>...) {
    storedOns = list.isEmpty ? nil : list
  }
}

/// A result builder for the transitions of a `When`: `On`s and lists of `On`s,
/// with `if`, `switch` and `for`.
@resultBuilder
public enum OnBuilder<State: DSLCompatible, Event: DSLCompatible> {
  /// The transitions read so far.
  public typealias Block = Transitions<State, Event>

  /// Accepts an `On` that is written in the closure, and that has been read already.
  @inlinable
  public static func buildExpression(_ on: On<State, Listed<Event, Self>>) -> Block { Block() }

  /// Reads an `On` that was created earlier.
  @inlinable
  @_disfavoredOverload
  public static func buildExpression(_ on: On<State, Event>) -> Block {
    on.read?()
    return Block()
  }

  /// Reads a list of `On`s.
  @inlinable
  public static func buildExpression(_ list: [On<State, Event>]) -> Block {
    Block.read(list)
    return Block()
  }

  /// Reads transitions that were listed earlier.
  @inlinable
  public static func buildExpression(_ block: Block) -> Block {
    block.read()
    return Block()
  }

  /// Accepts an empty body.
  @inlinable
  public static func buildBlock() -> Block { Block() }

  /// Accepts the first element.
  @inlinable
  public static func buildPartialBlock(first: Block) -> Block { first }

  /// Accepts the next element.
  @inlinable
  public static func buildPartialBlock(accumulated: Block, next: Block) -> Block { next }

  /// Accepts an `if` without `else`.
  @inlinable
  public static func buildOptional(_ block: Block?) -> Block {
    if block == nil { EventList.recordSkippedBranch() }
    return Block()
  }

  /// Accepts the first branch of an `if` or `switch`.
  @inlinable
  public static func buildEither(first: Block) -> Block {
    EventList.recordSkippedBranch()
    return first
  }

  /// Accepts the second branch of an `if` or `switch`.
  @inlinable
  public static func buildEither(second: Block) -> Block {
    EventList.recordSkippedBranch()
    return second
  }

  /// Accepts a loop.
  @inlinable
  public static func buildArray(_ blocks: [Block]) -> Block {
    if blocks.isEmpty { EventList.recordSkippedBranch() }
    return Block()
  }
}
