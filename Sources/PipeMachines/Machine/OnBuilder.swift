/// The transitions that the closure of one `When` lists.
///
/// A closure that uses `return` can return an array literal of `On`s instead.
///
/// ```swift
/// When(state: State.failed) { Execute.noOutput } transitions: {
///   return [On(event: Event.reset) { Transition(to: State.idle) }]
/// }
/// ```
public struct Transitions<State: DSLCompatible, Event: DSLCompatible>: Sendable {
  // The `On`s that the builder has not read. A builder reads the `On`s that are written in its
  // closure, and does not store them here.
  @usableFromInline let storedOns: [On<State, Event>]?

  @inlinable
  init() { storedOns = nil }

  /// Creates transitions from a list of `On`s.
  @inlinable
  public init(_ list: [On<State, Event>]) { storedOns = list }

  /// Compares the stored `On`s with the event of the current thread's step.
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
  /// Creates transitions from a list of `On`s.
  @inlinable
  public init(arrayLiteral list: On<State, Event>...) {
    storedOns = list.isEmpty ? nil : list
  }
}

/// A result builder for the transitions of a `When`: `On`s and lists of `On`s,
/// with `if`, `switch` and `for`.
@resultBuilder
public enum OnBuilder<State: DSLCompatible, Event: DSLCompatible> {
  /// The transitions that the builder has read so far.
  public typealias Block = Transitions<State, Event>

  /// Accepts an `On` that is written in the closure. Such an `On` was read when it was created.
  @inlinable
  public static func buildExpression(_ on: On<State, Listed<Event, Self>>) -> Block { Block() }

  /// Reads an `On` that was created before.
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

  /// Reads transitions that were listed before.
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
