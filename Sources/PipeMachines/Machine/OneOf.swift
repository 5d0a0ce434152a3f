/// A set of cases of a state or event enum, matched whatever their associated values.
public struct OneOf<Value: DSLCompatible>: Sendable {
  @usableFromInline package let tags: [Int]
  @usableFromInline let hasMatchedContext: Bool

  @inlinable
  init(tags: [Int], hasMatchedContext: Bool) {
    self.tags = tags
    self.hasMatchedContext = hasMatchedContext
  }

  /// Lists the cases: bare values, values, or constructors.
  @inlinable
  public init(@OneOfBuilder<Value> _ cases: () -> OneOfCases<Value>) {
    let cases = cases()
    self.init(tags: cases.tags, hasMatchedContext: cases.hasMatchedContext)
  }

  /// Whether `value` is one of these cases.
  public func contains(_ value: Value) -> Bool {
    guard !tags.isEmpty else { return false }
    return tags.contains(withUnsafePointer(to: value) { EnumCases<Value>.tag(at: $0) })
  }

  /// The names of the cases, each once.
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
    hasMatchedContext || tags.contains(context.pointee.tag)
  }

  /// The same cases, where another type stands for the enum.
  @inlinable
  func standing<Other>(for: Other.Type = Other.self) -> OneOf<Other> {
    OneOf<Other>(tags: tags, hasMatchedContext: hasMatchedContext)
  }
}

/// What a ``OneOfBuilder`` has gathered.
public struct OneOfCases<Value: DSLCompatible> {
  @usableFromInline var tags: [Int] = []
  // In an `On` that is read at once the cases are compared with the event of the step, and none is
  // kept.
  @usableFromInline var hasMatchedContext = false

  @inlinable
  init(tags: [Int] = [], hasMatchedContext: Bool = false) {
    self.tags = tags
    self.hasMatchedContext = hasMatchedContext
  }
}

/// Reads the body of a ``OneOf``.
@resultBuilder
public enum OneOfBuilder<Value: DSLCompatible> {
  /// Takes one element.
  @inlinable
  public static func buildExpression(_ value: Value) -> OneOfCases<Value> {
    OneOfCases(tags: [CasePattern(value: value).tag])
  }

  /// Takes one element.
  @inlinable
  public static func buildExpression<each Field>(
    _ constructor: (repeat each Field) -> Value
  ) -> OneOfCases<Value> { OneOfCases(tags: [CasePattern(constructor: constructor).tag]) }

  /// Takes one element.
  @inlinable
  public static func buildExpression<Field>(
    _ constructor: (Field) -> Value
  ) -> OneOfCases<Value> { OneOfCases(tags: [CasePattern(constructor: constructor).tag]) }

  /// Takes the first element.
  @inlinable
  public static func buildPartialBlock(first: OneOfCases<Value>) -> OneOfCases<Value> { first }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock(
    accumulated: OneOfCases<Value>, next: OneOfCases<Value>
  ) -> OneOfCases<Value> {
    OneOfCases(
      tags: accumulated.tags + next.tags,
      hasMatchedContext: accumulated.hasMatchedContext || next.hasMatchedContext)
  }

  /// Takes an `if` without `else`.
  @inlinable
  public static func buildOptional(_ cases: OneOfCases<Value>?) -> OneOfCases<Value> {
    cases ?? OneOfCases()
  }

  /// Takes the first branch.
  @inlinable
  public static func buildEither(first: OneOfCases<Value>) -> OneOfCases<Value> { first }

  /// Takes the other branch.
  @inlinable
  public static func buildEither(second: OneOfCases<Value>) -> OneOfCases<Value> { second }

  /// Takes a loop.
  @inlinable
  public static func buildArray(_ cases: [OneOfCases<Value>]) -> OneOfCases<Value> {
    OneOfCases(
      tags: cases.flatMap(\.tags),
      hasMatchedContext: cases.contains { $0.hasMatchedContext })
  }
}

// Events of an `On` that is written straight into a `When`.
extension OneOfBuilder {
  /// The context of the current step, if it is a step over events of this type.
  @inlinable
  static func step<Event>(over: Event.Type) -> UnsafeMutablePointer<MatchContext>? {
    guard let context = MatchThread.current, context.pointee.status != .listing,
      context.pointee.eventType == TypeMetadata(Event.self).pointer
    else { return nil }
    return context
  }

  /// Takes one element.
  @inlinable
  public static func buildExpression<Event, Builder>(_ event: Event) -> OneOfCases<Value>
  where Value == Listed<Event, Builder> {
    guard let step = step(over: Event.self) else {
      return OneOfCases(tags: [CasePattern(value: event).tag])
    }
    let tag = withUnsafePointer(to: event) { EnumCases<Event>.tag(at: $0) }
    return OneOfCases(hasMatchedContext: tag == step.pointee.tag)
  }

  /// Takes one element.
  @inlinable
  public static func buildExpression<Event, Builder, each Field>(
    _ constructor: (repeat each Field) -> Event
  ) -> OneOfCases<Value> where Value == Listed<Event, Builder> {
    guard let step = step(over: Event.self) else {
      return OneOfCases(tags: [CasePattern(constructor: constructor).tag])
    }
    return OneOfCases(hasMatchedContext: step.pointee.matches(constructor))
  }

  /// Takes one element.
  @inlinable
  public static func buildExpression<Event, Builder, Field>(
    _ constructor: (Field) -> Event
  ) -> OneOfCases<Value> where Value == Listed<Event, Builder> {
    guard let step = step(over: Event.self) else {
      return OneOfCases(tags: [CasePattern(constructor: constructor).tag])
    }
    return OneOfCases(hasMatchedContext: step.pointee.matchesOne(constructor))
  }
}
