/// What a machine would say to an event, found out without a step.
package enum Evaluation: Hashable, Sendable {
  /// It would take it.
  case taken
  /// It would take it by an asynchronous transition, of which it is not stated that it acts on nothing but
  /// its own state.
  case asynchronous
  /// The same of one of which that is stated.
  case selfContained
  /// A guard decides by the values that the event carries.
  case byValue
  /// It would refuse it.
  case refused(Refusal)
}

extension Evaluation: Codable {
  private static let words: [String: Evaluation] = [
    "taken": .taken, "asynchronous": .asynchronous, "selfContained": .selfContained,
    "byValue": .byValue,
  ]

  package init(from decoder: any Decoder) throws {
    let word = try? decoder.singleValueContainer().decode(String.self)
    self = try word.flatMap { Self.words[$0] } ?? .refused(Refusal(from: decoder))
  }

  package func encode(to encoder: any Encoder) throws {
    let word: String
    switch self {
    case .taken: word = "taken"
    case .asynchronous: word = "asynchronous"
    case .selfContained: word = "selfContained"
    case .byValue: word = "byValue"
    case .refused(let refusal): return try refusal.encode(to: encoder)
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
    case .suspended(let transition): transition.limit == nil ? .asynchronous : .selfContained
    case .refused(.asynchronous): .asynchronous
    case .refused(let refusal): .refused(refusal)
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
    guard isListed else {
      guard isAsynchronous else { return .byValue }
      return selfContained.limit(ofTag: tag) == nil ? .asynchronous : .selfContained
    }
    let entries = list(state).entries
    let own = entries.filter { $0.tags.contains(tag) }
    if let last = own.firstIndex(where: { !$0.isGuarded }) { return Self.evaluation(own[...last]) }
    // One that does not tell its case may be about this one.
    let isUntold = entries.contains { $0.tags.isEmpty }
    return own.isEmpty && !isUntold ? .refused(.noTransition) : .byValue
  }

  /// What entries say of an event, of which one takes it.
  private static func evaluation(_ entries: ArraySlice<EventList.Entry>) -> Evaluation {
    if entries.allSatisfy({ !$0.isAsynchronous }) { return .taken }
    if entries.allSatisfy(\.isUnlimited) { return .asynchronous }
    return entries.allSatisfy { $0.isAsynchronous && $0.limit != nil } ? .selfContained : .byValue
  }
}
