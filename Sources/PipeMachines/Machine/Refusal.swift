/// Why a machine does not take an event in a state.
public enum Refusal: Hashable, Sendable {
  /// The state has no transition for the event.
  case noTransition
  /// There is a transition, and its guard said no.
  case `guard`
  /// The function that describes the machine threw an error, which reads so.
  case thrown(String)
  /// The transition is asynchronous, and it is not stated that it acts on nothing but its own state: so
  /// nobody can be prepared to take the event together with others.
  case asynchronous
  /// The transition is asynchronous, and had not returned within its time limit.
  case overdue
  /// The transition leads to a state that is larger than a node may have: more than 1 MiB as JSON.
  case stateTooLarge
}

extension Refusal {
  /// The longest text of an error that is kept. Unit: characters.
  private static var textLimit: Int { 500 }

  /// What an error of a machine's function says, cut where it is long.
  @usableFromInline
  package static func thrown(by error: any Error) -> Refusal {
    if let refused = error as? RefusedStep { return refused.refusal }
    let text = "\(error)"
    return .thrown(text.count > textLimit ? text.prefix(textLimit) + "…" : text)
  }

  /// One word for programs: `noTransition`, `guard`, `thrown`, `asynchronous`, `overdue`, `stateTooLarge`.
  public var code: String {
    switch self {
    case .noTransition: "noTransition"
    case .guard: "guard"
    case .thrown: "thrown"
    case .asynchronous: "asynchronous"
    case .overdue: "overdue"
    case .stateTooLarge: "stateTooLarge"
    }
  }

  /// The error's text, where one was thrown.
  public var error: String? {
    if case .thrown(let text) = self { text } else { nil }
  }

  /// - Parameter error: The text of ``thrown(_:)``.
  package init?(code: String, error: String?) {
    switch code {
    case "noTransition": self = .noTransition
    case "guard": self = .guard
    case "thrown": self = .thrown(error ?? "")
    case "asynchronous": self = .asynchronous
    case "overdue": self = .overdue
    case "stateTooLarge": self = .stateTooLarge
    default: return nil
    }
  }
}

extension Refusal {
  /// The reason in words, to follow "refused: ".
  package var wording: String {
    switch self {
    case .noTransition: "that state has no transition for it"
    case .guard: "the transition's guard said no"
    case .thrown(let text): "its function threw: \(text)"
    case .asynchronous: "its transition is asynchronous, so that it can promise nothing"
    case .overdue: "its asynchronous transition had not returned within its time limit"
    case .stateTooLarge: StateSizeLimit.wording
    }
  }
}

extension Refusal: Codable {
  private enum Key: CodingKey { case thrown }

  /// Reads what ``encode(to:)`` writes.
  public init(from decoder: any Decoder) throws {
    if let keyed = try? decoder.container(keyedBy: Key.self) {
      self = .thrown(try keyed.decode(String.self, forKey: .thrown))
      return
    }
    let container = try decoder.singleValueContainer()
    let code = try container.decode(String.self)
    guard let refusal = Refusal(code: code, error: nil) else {
      throw DecodingError.dataCorruptedError(
        in: container, debugDescription: "'\(code)' is no reason of a refusal")
    }
    self = refusal
  }

  /// Writes the ``code``; of a thrown error, `{"thrown": TEXT}`.
  public func encode(to encoder: any Encoder) throws {
    if case .thrown(let text) = self {
      var container = encoder.container(keyedBy: Key.self)
      try container.encode(text, forKey: .thrown)
    } else {
      var container = encoder.singleValueContainer()
      try container.encode(code)
    }
  }
}
