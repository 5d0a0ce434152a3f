import PipeSupport

/// A link pattern, and the function that makes the routes of a link that matches the pattern.
///
/// A pattern consists of words and placeholders between slashes, as in
/// `quizzes/{quiz}/question/{number}`. The values of the placeholders are passed to the closure in
/// order, converted to the types of its parameters.
public struct DeepLink<Route: RouteType>: Sendable {
  /// The pattern.
  public let pattern: String
  /// The error in the pattern; `nil` if the pattern is valid.
  let problem: String?
  let segments: [Segment]
  private let makePath: @Sendable ([String]) throws(UnconvertibleValue) -> [Route]

  enum Segment: Hashable, Sendable {
    case word(String)
    case placeholder(String)
  }

  /// A value that cannot be converted to the type of its placeholder.
  struct UnconvertibleValue: Error {
    var position: Int
    var type: String
  }

  /// Makes a pattern that maps links to routes.
  /// - Parameter path: Returns the routes for the placeholders' values, the root first.
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
    self.makePath = { texts throws(UnconvertibleValue) in
      let reader = ValueReader(texts: texts)
      return path(repeat try reader.nextValue((each Value).self))
    }
  }

  private static func problem(
    with pattern: String, _ segments: [Segment], values: Int
  ) -> String? {
    let names = segments.compactMap { segment in
      if case .placeholder(let name) = segment { name } else { nil }
    }
    if segments.isEmpty { return "link pattern '\(pattern)' is empty; add a word" }
    if Set(names).count < names.count {
      return "link pattern '\(pattern)' has a duplicate placeholder; rename one of the placeholders"
    }
    if names.count != values {
      return "link pattern '\(pattern)' has \(names.count) placeholders, but its closure takes "
        + "\(values) values; the numbers must be equal"
    }
    return nil
  }

  /// Returns the routes for a link's segments; `nil` if the link does not match the pattern.
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
    do throws(UnconvertibleValue) {
      return try makePath(values.map(\.text))
    } catch {
      throw .unfitValue(
        link: link, value: values[error.position].text, placeholder: values[error.position].name,
        type: error.type)
    }
  }

  /// Returns the pattern with its placeholders replaced by the segments at the same indices in
  /// `parts`. A placeholder without such a segment stays.
  func link(filledWith parts: [String]) -> String {
    segments.enumerated().map { index, segment in
      switch segment {
      case .word(let word): word
      case .placeholder(let name): index < parts.count ? parts[index] : "{\(name)}"
      }
    }.joined(separator: "/")
  }

  /// A reader that converts the placeholders' values one by one.
  private final class ValueReader {
    private let texts: [String]
    private var position = 0

    init(texts: [String]) { self.texts = texts }

    func nextValue<Value: LosslessStringConvertible>(
      _ type: Value.Type
    ) throws(UnconvertibleValue) -> Value {
      defer { position += 1 }
      guard let value = Value(texts[position]) else {
        throw UnconvertibleValue(position: position, type: TypeName.of(type))
      }
      return value
    }
  }
}

/// A list of link patterns, in the order in which they are tried.
public struct DeepLinks<Route: RouteType>: Sendable, ExpressibleByArrayLiteral {
  private let links: [DeepLink<Route>]

  /// Makes a list of patterns.
  public init(_ links: [DeepLink<Route>]) { self.links = links }

  /// Makes a list of patterns.
  public init(arrayLiteral elements: DeepLink<Route>...) { self.init(elements) }

  /// The maximum length of a link. Unit: bytes.
  public static var maximumLinkByteCount: Int { NavigationLimits.maximumLinkByteCount }

  /// The patterns.
  public var patterns: [String] { links.map(\.pattern) }

  /// The messages about errors in the patterns; empty if there are none. For use in tests.
  public var problems: [String] { links.compactMap(\.problem) }

  /// Returns the routes of a link, the root first.
  ///
  /// A link is a path such as `quizzes/7`. It may begin with a slash or with a scheme, as in
  /// `app://quizzes/7`. As in URLs, `%2F` is a slash that is part of a value.
  /// - Throws: ``NavigationError`` if the link does not match any route.
  public func path(to link: String) throws(NavigationError) -> [Route] {
    guard link.utf8.count <= Self.maximumLinkByteCount else {
      throw .linkTooLong(byteCount: link.utf8.count)
    }
    let link = link.printable
    let parts = Self.withoutScheme(link).split(separator: "/").map(Self.percentDecoded)
    var conversionError: NavigationError?
    for pattern in links {
      do throws(NavigationError) {
        if let path = try pattern.path(of: parts, link: link) { return path }
      } catch {
        // Continues, because another pattern may match.
        conversionError = conversionError ?? error
      }
    }
    if let conversionError { throw conversionError }
    throw .unknownLink(link, known: patterns, nearest: nearest(to: parts))
  }

  private func nearest(to parts: [String]) -> String? {
    let candidates = links.map { $0.link(filledWith: parts) }
    return Suggestion.closest(to: parts.joined(separator: "/"), among: candidates)
  }

  private static func withoutScheme(_ link: String) -> Substring {
    guard let colon = link.firstIndex(of: ":"), link[colon...].hasPrefix("://"),
      link[..<colon].allSatisfy({ $0.isLetter || $0.isNumber })
    else { return link[...] }
    return link[colon...].dropFirst(3)
  }

  /// Returns the text with percent-encoded bytes decoded.
  private static func percentDecoded(_ part: Substring) -> String {
    guard part.utf8.contains(UInt8(ascii: "%")) else { return String(part) }
    var bytes: [UInt8] = []
    var rest = part.utf8[...]
    while let byte = rest.popFirst() {
      let digits = rest.prefix(2)
      if byte == UInt8(ascii: "%"), digits.count == 2,
        !digits.contains(UInt8(ascii: "+")),
        let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
      {
        bytes.append(value)
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
