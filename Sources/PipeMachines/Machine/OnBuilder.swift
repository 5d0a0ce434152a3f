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
  // The `On`s of an explicit list. `nil` if the `On`s are written directly in the closure, because
  // the closure's builder compares such `On`s immediately, and does not store them.
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

/// Whether the transitions that a builder has read contain an `After`. An `After` in a skipped
/// branch counts, too.
public enum _TimerPresence: Sendable {
  case none
  /// The transitions were created outside the builder, and their type does not show whether they
  /// contain an `After`.
  case unknown
  case some

  @inlinable
  func joined(with other: Self) -> Self {
    switch (self, other) {
    case (.some, _), (_, .some): .some
    case (.unknown, _), (_, .unknown): .unknown
    case (.none, .none): .none
    }
  }
}

/// A part of the transitions that a builder has read. The part's type shows whether the part
/// contains an `After`, even in a branch that is not taken. The machine reads timers only on entry
/// into a state whose transitions may contain an `After`.
public protocol _TransitionBlock {
  /// Creates the value, which has no contents: only its type matters.
  init()
  /// Whether the part contains an `After`.
  static var timers: _TimerPresence { get }
}

/// Transitions without `After`.
public struct _EventBlock: _TransitionBlock {
  /// Creates the value, which has no contents.
  @inlinable public init() {}
  /// Whether the part contains an `After`.
  @inlinable public static var timers: _TimerPresence { .none }
}

/// Transitions that were created outside the builder.
public struct _ListedBlock: _TransitionBlock {
  /// Creates the value, which has no contents.
  @inlinable public init() {}
  /// Whether the part contains an `After`.
  @inlinable public static var timers: _TimerPresence { .unknown }
}

/// An `After`.
public struct _TimerBlock: _TransitionBlock {
  /// Creates the value, which has no contents.
  @inlinable public init() {}
  /// Whether the part contains an `After`.
  @inlinable public static var timers: _TimerPresence { .some }
}

/// Two parts of a builder's transitions: one after the other, or two branches.
public struct _JoinedBlock<First: _TransitionBlock, Second: _TransitionBlock>: _TransitionBlock {
  /// Creates the value, which has no contents.
  @inlinable public init() {}
  /// Whether the part contains an `After`.
  @inlinable public static var timers: _TimerPresence { First.timers.joined(with: Second.timers) }
}

/// A result builder for the transitions of a `When`: `On`s, `After`s and lists of `On`s,
/// with `if`, `switch` and `for`.
@resultBuilder
public enum OnBuilder<State: DSLCompatible, Event: DSLCompatible> {
  /// The transitions that the builder has read so far.
  public typealias Block = Transitions<State, Event>

  /// Accepts an `On` that is written in the closure. Such an `On` was read when it was created.
  @inlinable
  public static func buildExpression(_ on: On<State, Listed<Event, Self>>) -> _EventBlock {
    _EventBlock()
  }

  /// Compares a stored `On` with the event.
  @inlinable
  @_disfavoredOverload
  public static func buildExpression(_ on: On<State, Event>) -> _EventBlock {
    on.read?()
    return _EventBlock()
  }

  /// Reads an `After`.
  @inlinable
  public static func buildExpression(_ after: After<State>) -> _TimerBlock {
    after.readTimer()
    return _TimerBlock()
  }

  /// Compares each `On` of a list with the event.
  @inlinable
  public static func buildExpression(_ list: [On<State, Event>]) -> _EventBlock {
    Block.read(list)
    return _EventBlock()
  }

  /// Reads transitions that were created outside the builder.
  @inlinable
  public static func buildExpression(_ block: Block) -> _ListedBlock {
    block.read()
    return _ListedBlock()
  }

  /// Accepts an empty body.
  @inlinable
  public static func buildBlock() -> _EventBlock { _EventBlock() }

  /// Accepts the first element.
  @inlinable
  public static func buildPartialBlock<First: _TransitionBlock>(first: First) -> First { first }

  /// Accepts the next element.
  @inlinable
  public static func buildPartialBlock(
    accumulated: _EventBlock, next: _EventBlock
  ) -> _EventBlock { next }

  /// Accepts the next element.
  @inlinable
  public static func buildPartialBlock<First: _TransitionBlock, Next: _TransitionBlock>(
    accumulated: First, next: Next
  ) -> _JoinedBlock<First, Next> { _JoinedBlock() }

  /// Accepts an `if` without `else`.
  @inlinable
  public static func buildOptional<Part: _TransitionBlock>(_ block: Part?) -> Part {
    if block == nil { EventList.recordSkippedBranch() }
    return Part()
  }

  /// Accepts the first branch of an `if` or `switch`.
  @inlinable
  public static func buildEither<First: _TransitionBlock, Second: _TransitionBlock>(
    first: First
  ) -> _JoinedBlock<First, Second> {
    EventList.recordSkippedBranch()
    return _JoinedBlock()
  }

  /// Accepts the second branch of an `if` or `switch`.
  @inlinable
  public static func buildEither<First: _TransitionBlock, Second: _TransitionBlock>(
    second: Second
  ) -> _JoinedBlock<First, Second> {
    EventList.recordSkippedBranch()
    return _JoinedBlock()
  }

  /// Accepts a loop.
  @inlinable
  public static func buildArray<Part: _TransitionBlock>(_ blocks: [Part]) -> Part {
    if blocks.isEmpty { EventList.recordSkippedBranch() }
    return Part()
  }

  /// Returns the transitions of the closure, and records whether they may contain timers.
  @inlinable
  public static func buildFinalResult<Body: _TransitionBlock>(_ body: Body) -> Block {
    switch Body.timers {
    case .none: break
    case .unknown: EventList.recordTimers(isCertain: false)
    case .some: EventList.recordTimers(isCertain: true)
    }
    return Block()
  }
}
