/// A set of cases of a state or event enum, matched whatever their associated values.
public struct OneOf<Value: DSLCompatible>: Sendable {
  @usableFromInline package let patterns: [CasePattern<Value>]
  @usableFromInline let hasMatchedContext: Bool

  /// Lists the cases: bare values, values, or constructors.
  @inlinable
  public init(@OneOfBuilder<Value> _ cases: () -> OneOfCases<Value>) {
    let cases = cases()
    patterns = cases.patterns
    hasMatchedContext = cases.hasMatchedContext
  }

  /// Whether `value` is one of these cases.
  public func contains(_ value: Value) -> Bool { patterns.contains { $0.matches(value) } }

  @inlinable
  func matches(_ context: UnsafeMutablePointer<MatchContext>) -> Bool {
    hasMatchedContext || patterns.contains { $0.tag == context.pointee.tag }
  }
}

/// What a ``OneOfBuilder`` has gathered.
public struct OneOfCases<Value: DSLCompatible> {
  @usableFromInline var patterns: [CasePattern<Value>] = []
  // Within a step the cases are compared with the event at once, and none is kept.
  @usableFromInline var hasMatchedContext = false

  @inlinable
  init(patterns: [CasePattern<Value>] = [], hasMatchedContext: Bool = false) {
    self.patterns = patterns
    self.hasMatchedContext = hasMatchedContext
  }
}

/// Reads the body of a ``OneOf``.
@resultBuilder
public enum OneOfBuilder<Value: DSLCompatible> {
  /// The context of the current step, if it is a step over values of this type.
  @inlinable
  static var step: UnsafeMutablePointer<MatchContext>? {
    guard let context = MatchThread.current, context.pointee.status != .listing,
      context.pointee.eventType == TypeMetadata(Value.self).pointer
    else { return nil }
    return context
  }

  /// Takes one element.
  @inlinable
  public static func buildExpression(_ value: Value) -> OneOfCases<Value> {
    guard let step else { return OneOfCases(patterns: [CasePattern(value: value)]) }
    let tag = withUnsafePointer(to: value) { TypeMetadata(Value.self).tag(of: $0) }
    return OneOfCases(hasMatchedContext: tag == step.pointee.tag)
  }

  /// Takes one element.
  @inlinable
  public static func buildExpression<each Field>(
    _ constructor: (repeat each Field) -> Value
  ) -> OneOfCases<Value> {
    guard let step else { return OneOfCases(patterns: [CasePattern(constructor: constructor)]) }
    return OneOfCases(hasMatchedContext: step.pointee.matches(constructor))
  }

  /// Takes one element.
  @inlinable
  public static func buildExpression<Field>(
    _ constructor: (Field) -> Value
  ) -> OneOfCases<Value> {
    guard let step else { return OneOfCases(patterns: [CasePattern(constructor: constructor)]) }
    return OneOfCases(hasMatchedContext: step.pointee.matchesOne(constructor))
  }

  /// Takes the first element.
  @inlinable
  public static func buildPartialBlock(first: OneOfCases<Value>) -> OneOfCases<Value> { first }

  /// Joins what is read so far with the next element.
  @inlinable
  public static func buildPartialBlock(
    accumulated: OneOfCases<Value>, next: OneOfCases<Value>
  ) -> OneOfCases<Value> {
    OneOfCases(
      patterns: accumulated.patterns + next.patterns,
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
      patterns: cases.flatMap(\.patterns),
      hasMatchedContext: cases.contains { $0.hasMatchedContext })
  }
}
