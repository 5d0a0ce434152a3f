/// The transitions of one `When`: what its closure lists.
///
/// An array literal of `On`s makes them too, where a closure says `return`.
///
/// ```swift
/// When(state: State.failed) { Execute.noOutput } transitions: {
///   return [On(event: Event.reset) { Transition(to: State.idle) }]
/// }
/// ```
public struct Transitions<State: DSLCompatible, Event: DSLCompatible>: Sendable {
  // What a builder lists is read while it is listed; these are not.
  @usableFromInline let unread: [On<State, Event>]?

  @inlinable
  init() { unread = nil }

  /// Lists `On`s.
  @inlinable
  public init(_ list: [On<State, Event>]) { unread = list }

  /// Compares those that are not read yet with the event of the step that the thread is in.
  @inlinable
  func read() {
    if let unread { Self.read(unread) }
  }

  @usableFromInline
  static func read(_ list: [On<State, Event>]) {
    for on in list { on.read?() }
    if list.isEmpty { EventList.missBranch() }
  }
}

extension Transitions: ExpressibleByArrayLiteral {
  /// Lists `On`s.
  @inlinable
  public init(arrayLiteral list: On<State, Event>...) {
    unread = list.isEmpty ? nil : list
  }
}

/// Reads the transitions of a `When`: `On`s and lists of them, with `if`, `switch` and `for` where
/// wanted.
@resultBuilder
public enum OnBuilder<State: DSLCompatible, Event: DSLCompatible> {
  /// The transitions read so far.
  public typealias Block = Transitions<State, Event>

  /// Takes an `On` that stands here.
  @inlinable
  public static func buildExpression(_ on: On<State, Listed<Event, Self>>) -> Block { Block() }

  /// Takes an `On` that was made before.
  @inlinable
  @_disfavoredOverload
  public static func buildExpression(_ on: On<State, Event>) -> Block {
    on.read?()
    return Block()
  }

  /// Takes a list of them.
  @inlinable
  public static func buildExpression(_ list: [On<State, Event>]) -> Block {
    Block.read(list)
    return Block()
  }

  /// Takes transitions that were listed before.
  @inlinable
  public static func buildExpression(_ block: Block) -> Block {
    block.read()
    return Block()
  }

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
