/// The reason why a machine refuses an event in a state.
public enum Refusal: Hashable, Sendable {
  /// The state has no transition for the event.
  case noTransition
  /// The state has a transition for the event, but its guard did not pass.
  case `guard`
  /// The function that defines the machine threw an error with this text.
  case thrown(String)
  /// The transition is asynchronous, and not declared to be self-contained. Therefore, the machine
  /// cannot prepare to accept the event together with other participants.
  case asynchronous
  /// The transition is asynchronous, and did not return within its time limit.
  case timedOut
  /// The next state is too large for a node: more than 1 MiB as JSON.
  case stateTooLarge
  /// The instance of a keyed node has ended in a final state.
  case ended
}

extension Refusal {
  /// The maximum length of an error text; longer texts are cut. Unit: characters.
  private static var textLimit: Int { 500 }

  /// Returns the refusal for an error of a machine's function. Cuts the error's text if it is too
  /// long.
  @usableFromInline
  package static func thrown(by error: any Error) -> Refusal {
    if let refused = error as? RefusedStep { return refused.refusal }
    let text = "\(error)"
    return .thrown(text.count > textLimit ? text.prefix(textLimit) + "…" : text)
  }

  /// The reason as one word for programs. The words are `noTransition`, `guard`, `thrown`,
  /// `asynchronous`, `timedOut`, `stateTooLarge` and `ended`.
  public var code: String {
    switch self {
    case .noTransition: "noTransition"
    case .guard: "guard"
    case .thrown: "thrown"
    case .asynchronous: "asynchronous"
    case .timedOut: "timedOut"
    case .stateTooLarge: "stateTooLarge"
    case .ended: "ended"
    }
  }

  /// The error's text; `nil` if no error was thrown.
  public var error: String? {
    if case .thrown(let text) = self { text } else { nil }
  }

  /// Creates the reason with this code; `nil` if the code is unknown.
  /// - Parameter error: The text of ``thrown(_:)``. Not used for other codes.
  package init?(code: String, error: String?) {
    switch code {
    case "noTransition": self = .noTransition
    case "guard": self = .guard
    case "thrown": self = .thrown(error ?? "")
    case "asynchronous": self = .asynchronous
    case "timedOut": self = .timedOut
    case "stateTooLarge": self = .stateTooLarge
    case "ended": self = .ended
    default: return nil
    }
  }
}

extension Refusal {
  /// Whether `on_refused: ignore` drops an event that is refused for this reason. If this property
  /// is `false`, such a refusal is handled as an error even with `on_refused: ignore`.
  package var canBeIgnored: Bool {
    switch self {
    case .noTransition, .guard, .ended: true
    case .thrown, .asynchronous, .timedOut, .stateTooLarge: false
    }
  }
}

extension Refusal {
  /// The reason in words, to be appended to "refused: ".
  package var wording: String {
    switch self {
    case .noTransition: "the state has no transition for the event"
    case .guard: "the transition's guard is false"
    case .thrown(let text): "the machine's function threw: \(text)"
    case .asynchronous: "the transition is asynchronous, so the node cannot promise the event"
    case .timedOut: "the asynchronous transition did not return within its time limit"
    case .stateTooLarge: StateSizeLimit.wording
    case .ended: "the instance has ended in a final state"
    }
  }
}

extension Refusal: Codable {
  private enum Key: CodingKey { case thrown }

  /// Decodes the form that ``encode(to:)`` writes.
  public init(from decoder: any Decoder) throws {
    if let keyed = try? decoder.container(keyedBy: Key.self) {
      self = .thrown(try keyed.decode(String.self, forKey: .thrown))
      return
    }
    let container = try decoder.singleValueContainer()
    let code = try container.decode(String.self)
    guard let refusal = Refusal(code: code, error: nil) else {
      throw DecodingError.dataCorruptedError(
        in: container, debugDescription: "unknown refusal reason '\(code)'")
    }
    self = refusal
  }

  /// Encodes the ``code``; for a thrown error, `{"thrown": TEXT}`.
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
