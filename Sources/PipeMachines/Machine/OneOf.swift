/// A set of cases of a state or event enum. Associated values are ignored.
public struct OneOf<Value: DSLCompatible>: Sendable {
  @usableFromInline package let tags: [Int]
  @usableFromInline let includesCurrentEvent: Bool

  @inlinable
  init(tags: [Int], includesCurrentEvent: Bool) {
    self.tags = tags
    self.includesCurrentEvent = includesCurrentEvent
  }

  /// Creates a set from a list of cases. A case is identified by a value of the case or by the
  /// case's constructor.
  @inlinable
  public init(@OneOfBuilder<Value> _ cases: () -> OneOfCases<Value>) {
    let cases = cases()
    self.init(tags: cases.tags, includesCurrentEvent: cases.includesCurrentEvent)
  }

  /// Returns whether `value` is one of these cases.
  public func contains(_ value: Value) -> Bool {
    guard !tags.isEmpty else { return false }
    return tags.contains(withUnsafePointer(to: value) { EnumCases<Value>.tag(at: $0) })
  }

  /// The names of the cases, without duplicates.
  var names: [String] {
    var found: [String] = []
    for tag in tags {
      let name = EnumCases<Value>.names[tag]
      if !found.contains(name) { found.append(name) }
    }
    return found
  }

  @inlinable
  func matches(_ context: UnsafeMutablePointer<MatchContext>) -> Bool {
    includesCurrentEvent || tags.contains(context.pointee.tag)
  }

  /// Returns a set of another type's cases, with the same tags.
  @inlinable
  func retyped<Other>(for: Other.Type = Other.self) -> OneOf<Other> {
    OneOf<Other>(tags: tags, includesCurrentEvent: includesCurrentEvent)
  }
}

/// The cases that a ``OneOfBuilder`` has collected.
public struct OneOfCases<Value: DSLCompatible> {
  @usableFromInline var tags: [Int] = []
  // Whether one of the cases is the case of the current step's event. An `On` that is written
  // directly in a `When` uses this answer instead of `tags`.
  @usableFromInline var includesCurrentEvent = false

  @inlinable
  init(tags: [Int] = [], includesCurrentEvent: Bool = false) {
    self.tags = tags
    self.includesCurrentEvent = includesCurrentEvent
  }
}

/// A result builder for the body of a ``OneOf``.
@resultBuilder
public enum OneOfBuilder<Value: DSLCompatible> {
  /// Adds the case of a value.
  @inlinable
  public static func buildExpression(_ value: Value) -> OneOfCases<Value> {
    OneOfCases(tags: [CasePattern(value: value).tag])
  }

  /// Adds the case that a constructor makes.
  @inlinable
  public static func buildExpression<each Field>(
    _ constructor: (repeat each Field) -> Value
  ) -> OneOfCases<Value> { OneOfCases(tags: [CasePattern(constructor: constructor).tag]) }

  /// Adds the case that a constructor makes.
  @inlinable
  public static func buildExpression<Field>(
    _ constructor: (Field) -> Value
  ) -> OneOfCases<Value> { OneOfCases(tags: [CasePattern(constructor: constructor).tag]) }

  /// Accepts the first element.
  @inlinable
  public static func buildPartialBlock(first: OneOfCases<Value>) -> OneOfCases<Value> { first }

  /// Adds the next element to the previous elements.
  @inlinable
  public static func buildPartialBlock(
    accumulated: OneOfCases<Value>, next: OneOfCases<Value>
  ) -> OneOfCases<Value> {
    OneOfCases(
      tags: accumulated.tags + next.tags,
      includesCurrentEvent: accumulated.includesCurrentEvent || next.includesCurrentEvent)
  }

  /// Accepts an `if` without `else`.
  @inlinable
  public static func buildOptional(_ cases: OneOfCases<Value>?) -> OneOfCases<Value> {
    cases ?? OneOfCases()
  }

  /// Accepts the first branch of an `if` or `switch`.
  @inlinable
  public static func buildEither(first: OneOfCases<Value>) -> OneOfCases<Value> { first }

  /// Accepts the second branch of an `if` or `switch`.
  @inlinable
  public static func buildEither(second: OneOfCases<Value>) -> OneOfCases<Value> { second }

  /// Accepts a loop.
  @inlinable
  public static func buildArray(_ cases: [OneOfCases<Value>]) -> OneOfCases<Value> {
    OneOfCases(
      tags: cases.flatMap(\.tags),
      includesCurrentEvent: cases.contains { $0.includesCurrentEvent })
  }
}

// Events of an `On` that is written directly in a `When`.
extension OneOfBuilder {
  /// Returns the context of the current step; `nil` outside a step, or if the events of the step's
  /// machine have another type.
  @inlinable
  static func step<Event>(over: Event.Type) -> UnsafeMutablePointer<MatchContext>? {
    guard let context = MatchThread.current, context.pointee.status != .listing,
      context.pointee.eventType == TypeMetadata(Event.self).pointer
    else { return nil }
    return context
  }

  /// Adds the case of a value.
  @inlinable
  public static func buildExpression<Event, Builder>(_ event: Event) -> OneOfCases<Value>
  where Value == Listed<Event, Builder> {
    guard let step = step(over: Event.self) else {
      return OneOfCases(tags: [CasePattern(value: event).tag])
    }
    let tag = withUnsafePointer(to: event) { EnumCases<Event>.tag(at: $0) }
    return OneOfCases(includesCurrentEvent: tag == step.pointee.tag)
  }

  /// Adds the case that a constructor makes.
  @inlinable
  public static func buildExpression<Event, Builder, each Field>(
    _ constructor: (repeat each Field) -> Event
  ) -> OneOfCases<Value> where Value == Listed<Event, Builder> {
    guard let step = step(over: Event.self) else {
      return OneOfCases(tags: [CasePattern(constructor: constructor).tag])
    }
    return OneOfCases(includesCurrentEvent: step.pointee.matches(constructor))
  }

  /// Adds the case that a constructor makes.
  @inlinable
  public static func buildExpression<Event, Builder, Field>(
    _ constructor: (Field) -> Event
  ) -> OneOfCases<Value> where Value == Listed<Event, Builder> {
    guard let step = step(over: Event.self) else {
      return OneOfCases(tags: [CasePattern(constructor: constructor).tag])
    }
    return OneOfCases(includesCurrentEvent: step.pointee.matchesOne(constructor))
  }
}
