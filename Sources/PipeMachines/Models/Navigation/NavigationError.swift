import PipeSupport

/// The reason why a navigation request was rejected. The request has not changed anything.
public enum NavigationError: Error, Codable, Hashable, Sendable, CustomStringConvertible {
  /// No pattern matches the link. Carries the known patterns, and the most similar link.
  case unknownLink(String, known: [String], nearest: String?)
  /// A pattern matches, but a value in the link cannot be converted. Carries the link, the value,
  /// its placeholder and the expected type.
  case unfitValue(link: String, value: String, placeholder: String, type: String)
  /// The link is longer than ``DeepLinks/maximumLinkByteCount``. Unit: bytes.
  case linkTooLong(byteCount: Int)
  /// A pattern itself is invalid.
  case malformedPattern(String)
  /// The stack already shows this screen.
  case alreadyShown(String)
  /// The stack shows its root: there is nothing to pop.
  case atRoot
  /// A sheet is shown over the stack. Carries the route of the sheet.
  case sheetIsShown(String)
  /// No sheet is shown.
  case noSheet
  /// The stack has reached the maximum number of screens.
  case tooDeep(limit: Int)
  /// The first screen of the path is not a root of this stack or of these tabs. Carries the known
  /// roots.
  case otherRoot(String, known: [String])
  /// The request belongs to a screen that is not shown.
  case notShown(String)
  /// The request requires that the user is logged in.
  case unauthenticated
  /// The request requires that the user is not logged in.
  case authenticated

  /// A message that describes the error and a way to resolve it.
  public var description: String {
    switch self {
    case .unknownLink(let link, let known, let nearest):
      known.isEmpty
        ? "no route matches link '\(link)': there are no link patterns; list patterns in 'links'"
        : "no route matches link '\(link)'; link patterns are "
          + known.map { "'\($0)'" }.joined(separator: ", ")
          + Suggestion.hint(nearest)
    case .unfitValue(let link, let value, let placeholder, let type):
      "link '\(link)': invalid value '\(value)' for '{\(placeholder)}'; use a value of type \(type)"
    case .linkTooLong(let count):
      "a link of \(count) bytes is too long; the limit is \(NavigationLimits.maximumLinkByteCount)"
    case .malformedPattern(let problem): problem
    case .alreadyShown(let route): "'\(route)' is shown already"
    case .atRoot: "the root is shown, and there is no previous screen; push a screen first"
    case .sheetIsShown(let route): "the sheet '\(route)' is shown; dismiss it first"
    case .noSheet: "no sheet is shown; present one first"
    case .tooDeep(let limit):
      "the navigation stack is full with \(limit) screens; pop a screen first"
    case .otherRoot(let route, let known):
      "'\(route)' is not a root screen"
        + Suggestion.among(known, like: route, verb: "root screens are")
    case .notShown(let screen): "'\(screen)' is not shown; open it first"
    case .unauthenticated: "no user is logged in; log in first"
    case .authenticated: "a user is logged in; log out first"
    }
  }
}

/// The limits of navigation.
enum NavigationLimits {
  /// The maximum number of screens in one stack, including the root.
  static let maximumDepth = 64
  static let maximumLinkByteCount = 1_024
}

/// A link that could not be followed, with the reason. A state can contain this value, so that a
/// view can show the failure.
public struct LinkFailure: Codable, Hashable, Sendable {
  /// The link, truncated if it is too long.
  public var link: String
  /// The reason why the link could not be followed, and what to do.
  public var reason: String

  /// Makes a value from a link, and from the error that was thrown for it.
  public init(_ link: String, _ error: NavigationError) {
    self.link = String(link.prefix(100)).printable
    reason = error.description
  }
}
