import PipeSupport

/// Why navigation did not go where it was asked to. Nothing has changed then.
public enum NavigationError: Error, Codable, Hashable, Sendable, CustomStringConvertible {
  /// No pattern fits the link; with the patterns that there are, and the link that may be meant.
  case unknownLink(String, known: [String], nearest: String?)
  /// A pattern fits but for a value: the link, the value, its placeholder and the type it should have.
  case unfitValue(link: String, value: String, placeholder: String, type: String)
  /// The link is longer than ``DeepLinks/longestLink``. Unit: bytes.
  case linkTooLong(byteCount: Int)
  /// A pattern itself is wrong.
  case malformedPattern(String)
  /// The stack shows this screen already.
  case alreadyShown(String)
  /// The stack shows its root: there is nothing to pop.
  case atRoot
  /// A sheet is shown over the stack; with its route.
  case sheetIsShown(String)
  /// No sheet is shown.
  case noSheet
  /// The stack has as many screens as it may.
  case tooDeep(limit: Int)
  /// The path begins at a screen that is no root here; with the roots that there are.
  case otherRoot(String, known: [String])
  /// That belongs to another screen than the one that is shown.
  case notShown(String)
  /// That is for those who have logged in.
  case unauthenticated
  /// That is for those who have not logged in.
  case authenticated

  /// What went wrong, and what to do.
  public var description: String {
    switch self {
    case .unknownLink(let link, let known, let nearest):
      known.isEmpty
        ? "link '\(link)' leads nowhere: there are no patterns; list some in 'links'"
        : "link '\(link)' leads nowhere; there are "
          + known.map { "'\($0)'" }.joined(separator: ", ")
          + Suggestion.hint(nearest)
    case .unfitValue(let link, let value, let placeholder, let type):
      "link '\(link)': '\(value)' stands for '{\(placeholder)}' and is no \(type); give one"
    case .linkTooLong(let count):
      "a link of \(count) bytes is too long; the limit is \(NavigationLimits.linkByteCount)"
    case .malformedPattern(let problem): problem
    case .alreadyShown(let route): "'\(route)' is shown already"
    case .atRoot: "the root is shown, and there is nothing to go back to; push a screen first"
    case .sheetIsShown(let route): "the sheet '\(route)' is shown; dismiss it first"
    case .noSheet: "no sheet is shown; present one first"
    case .tooDeep(let limit): "\(limit) screens are on the stack, and no more fit; pop some first"
    case .otherRoot(let route, let known):
      "'\(route)' is no root here" + Suggestion.among(known, like: route, verb: "there are")
    case .notShown(let screen): "'\(screen)' is not shown; open it first"
    case .unauthenticated: "nobody is logged in; log in first"
    case .authenticated: "somebody is logged in; log out first"
    }
  }
}

/// The limits of navigation.
enum NavigationLimits {
  /// Screens of one stack, its root included.
  static let depth = 64
  static let linkByteCount = 1_024
}

/// A link that led nowhere, kept in a state so that it can be shown.
public struct LinkProblem: Codable, Hashable, Sendable {
  /// The link; what is too long of it is left out.
  public var link: String
  /// Why it led nowhere, and what to do.
  public var reason: String

  /// Makes one of the error that following the link threw.
  public init(_ link: String, _ error: NavigationError) {
    self.link = String(link.prefix(100)).printable
    reason = error.description
  }
}
