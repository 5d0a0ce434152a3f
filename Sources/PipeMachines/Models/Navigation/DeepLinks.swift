import PipeSupport

/// The patterns of links that lead to routes, in the order in which they are tried.
public struct DeepLinks<Route: RouteType>: Sendable, ExpressibleByArrayLiteral {
  private let links: [DeepLink<Route>]

  /// Makes a list of patterns.
  public init(_ links: [DeepLink<Route>]) { self.links = links }

  /// Makes a list of patterns.
  public init(arrayLiteral elements: DeepLink<Route>...) { self.init(elements) }

  /// The longest link. Unit: bytes.
  public static var longestLink: Int { NavigationLimits.linkByteCount }

  /// The patterns.
  public var patterns: [String] { links.map(\.pattern) }

  /// What is wrong with the patterns, in words; empty where nothing is. For a test.
  public var problems: [String] { links.compactMap(\.problem) }

  /// The routes that a link leads through, the root first.
  ///
  /// A link is a path such as `quizzes/7`, which may begin with a slash or with a scheme, as in
  /// `app://quizzes/7`. In it `%2F` stands for a slash that is part of a value, as in URLs.
  /// - Throws: ``NavigationError``, where it leads nowhere.
  public func path(to link: String) throws(NavigationError) -> [Route] {
    guard link.utf8.count <= Self.longestLink else {
      throw .linkTooLong(byteCount: link.utf8.count)
    }
    let link = link.printable
    let parts = Self.withoutScheme(link).split(separator: "/").map(Self.decoded)
    var unfit: NavigationError?
    for pattern in links {
      do throws(NavigationError) {
        if let path = try pattern.path(of: parts, link: link) { return path }
      } catch {
        // Another pattern may fit.
        unfit = unfit ?? error
      }
    }
    if let unfit { throw unfit }
    throw .unknownLink(link, known: patterns, nearest: nearest(to: parts))
  }

  private func nearest(to parts: [String]) -> String? {
    let candidates = links.map { $0.filled(with: parts) }
    return Suggestion.closest(to: parts.joined(separator: "/"), among: candidates)
  }

  private static func withoutScheme(_ link: String) -> Substring {
    guard let colon = link.firstIndex(of: ":"), link[colon...].hasPrefix("://"),
      link[..<colon].allSatisfy({ $0.isLetter || $0.isNumber })
    else { return link[...] }
    return link[colon...].dropFirst(3)
  }

  /// The text with the bytes that `%` and two hexadecimal digits stand for.
  private static func decoded(_ part: Substring) -> String {
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
