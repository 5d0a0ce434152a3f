import PipeSupport

/// A pattern of links, and the routes that a link of it leads through.
///
/// A pattern has words and placeholders between slashes, as in `quizzes/{quiz}/question/{number}`. The
/// values of the placeholders are given to the closure in their order, as what its parameters are.
public struct DeepLink<Route: RouteType>: Sendable {
  /// The pattern.
  public let pattern: String
  /// What is wrong with the pattern; `nil` where nothing is.
  let problem: String?
  let segments: [Segment]
  private let path: @Sendable ([String]) throws(UnfitValue) -> [Route]

  enum Segment: Hashable, Sendable {
    case word(String)
    case placeholder(String)
  }

  /// A value that is not of its placeholder's type.
  struct UnfitValue: Error {
    var place: Int
    var type: String
  }

  /// Makes a pattern lead to routes.
  /// - Parameter path: The routes of the placeholders' values, the root first.
  public init<each Value: LosslessStringConvertible & Sendable>(
    _ pattern: String, to path: @escaping @Sendable (repeat each Value) -> [Route]
  ) {
    self.pattern = pattern
    segments = pattern.split(separator: "/").map { part in
      part.first == "{" && part.last == "}"
        ? .placeholder(String(part.dropFirst().dropLast())) : .word(String(part))
    }
    var count = 0
    for _ in repeat (each Value).self { count += 1 }
    problem = Self.problem(with: pattern, segments, values: count)
    self.path = { texts throws(UnfitValue) in
      let reader = ValueReader(texts: texts)
      return path(repeat try reader.next((each Value).self))
    }
  }

  private static func problem(
    with pattern: String, _ segments: [Segment], values: Int
  ) -> String? {
    let names = segments.compactMap { segment in
      if case .placeholder(let name) = segment { name } else { nil }
    }
    if segments.isEmpty { return "link pattern '\(pattern)' has no words; give it some" }
    if Set(names).count < names.count {
      return "link pattern '\(pattern)' has a placeholder twice; give each a name of its own"
    }
    if names.count != values {
      return "link pattern '\(pattern)' has \(names.count) placeholders, and its closure takes "
        + "\(values) values; there must be as many"
    }
    return nil
  }

  /// The routes of a link's segments, or `nil` where the pattern is another one's.
  func path(of parts: [String], link: String) throws(NavigationError) -> [Route]? {
    guard parts.count == segments.count else { return nil }
    var values: [(name: String, text: String)] = []
    for (segment, part) in zip(segments, parts) {
      switch segment {
      case .word(let word): if word != part { return nil }
      case .placeholder(let name): values.append((name, part))
      }
    }
    if let problem { throw .malformedPattern(problem) }
    do throws(UnfitValue) {
      return try path(values.map(\.text))
    } catch {
      throw .unfitValue(
        link: link, value: values[error.place].text, placeholder: values[error.place].name,
        type: error.type)
    }
  }

  /// The link of this pattern that is most like these segments.
  func filled(with parts: [String]) -> String {
    segments.enumerated().map { index, segment in
      switch segment {
      case .word(let word): word
      case .placeholder(let name): index < parts.count ? parts[index] : "{\(name)}"
      }
    }.joined(separator: "/")
  }

  /// Reads one value after the other.
  private final class ValueReader {
    private let texts: [String]
    private var place = 0

    init(texts: [String]) { self.texts = texts }

    func next<Value: LosslessStringConvertible>(
      _ type: Value.Type
    ) throws(UnfitValue) -> Value {
      defer { place += 1 }
      guard let value = Value(texts[place]) else {
        throw UnfitValue(place: place, type: TypeName.of(type))
      }
      return value
    }
  }
}
