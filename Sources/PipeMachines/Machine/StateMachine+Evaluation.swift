/// What a machine would say to an event, found out without a step.
package enum Evaluation: Hashable, Sendable {
  /// It would take it.
  case taken
  /// It would take it by an asynchronous transition, of which nobody knows where it leads.
  case asynchronous
  /// Its state has no transition for it.
  case noTransition
  /// There is a transition, and its guard says no.
  case `guard`
  /// Its function throws an error, which reads so.
  case thrown(String)
  /// A guard decides by the values that the event carries.
  case byValue
}

extension Evaluation: Codable {
  private enum Key: CodingKey { case thrown }

  package init(from decoder: any Decoder) throws {
    if let keyed = try? decoder.container(keyedBy: Key.self) {
      self = .thrown(try keyed.decode(String.self, forKey: .thrown))
      return
    }
    let container = try decoder.singleValueContainer()
    switch try container.decode(String.self) {
    case "taken": self = .taken
    case "asynchronous": self = .asynchronous
    case "noTransition": self = .noTransition
    case "guard": self = .guard
    case "byValue": self = .byValue
    case let other:
      throw DecodingError.dataCorruptedError(
        in: container, debugDescription: "'\(other)' is nothing that a machine says to an event")
    }
  }

  package func encode(to encoder: any Encoder) throws {
    let word: String
    switch self {
    case .thrown(let text):
      var container = encoder.container(keyedBy: Key.self)
      return try container.encode(text, forKey: .thrown)
    case .taken: word = "taken"
    case .asynchronous: word = "asynchronous"
    case .noTransition: word = "noTransition"
    case .guard: word = "guard"
    case .byValue: word = "byValue"
    }
    var container = encoder.singleValueContainer()
    try container.encode(word)
  }
}

extension StateMachine {
  /// What the machine would say to an event.
  package func evaluate(_ event: Event, in state: State) -> Evaluation {
    switch step(state, event) {
    case .next: .taken
    // What would run is let go of, and has not begun.
    case .suspended: .asynchronous
    case .refused(.noTransition): .noTransition
    case .refused(.guard): .guard
    case .refused(.thrown(let error)): .thrown(error)
    case .refused(.asynchronous): .asynchronous
    }
  }

  /// What the machine would say to an event of which only the case is known; `nil` where it has no
  /// such case.
  ///
  /// An event without associated values is tried. Of any other the transitions of this very state are
  /// read: where each of them has a guard, nothing can be said without values, nor where the machine is a
  /// function.
  package func evaluate(caseNamed name: String, in state: State) -> Evaluation? {
    guard let tag = EnumCases<Event>.names.firstIndex(of: name) else { return nil }
    if let event = EnumCases<Event>.bareValue(tag: tag) { return evaluate(event, in: state) }
    // What a function would say to a value is known only when it has it.
    guard isListed else { return isAsynchronous ? .asynchronous : .byValue }
    let entries = list(state).entries
    let own = entries.filter { $0.tags.contains(tag) }
    if own.contains(where: { !$0.isGuarded }) { return .taken }
    // One that does not tell its case may be about this one.
    let isUntold = entries.contains { $0.tags.isEmpty }
    return own.isEmpty && !isUntold ? .noTransition : .byValue
  }
}
