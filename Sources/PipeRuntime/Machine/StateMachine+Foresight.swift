/// What a machine would say to an event, found out without a step.
package enum Foresight: String, Codable, Hashable, Sendable {
  /// It would take it.
  case taken
  /// It would take it by an asynchronous transition, of which nobody knows where it leads.
  case asynchronous
  /// Its state has no transition for it.
  case noTransition
  /// There is a transition, and its guard says no.
  case `guard`
  /// A guard decides by the values that the event carries.
  case byValue
}

extension StateMachine {
  /// What the machine would say to an event.
  package func foresee(_ event: Event, in state: State) -> Foresight {
    switch step(state, event) {
    case .next: .taken
    // What would run is let go of, and has not begun.
    case .suspended: .asynchronous
    case .refused(.noTransition): .noTransition
    case .refused(.guard): .guard
    }
  }

  /// What the machine would say to an event of which only the case is known; `nil` where it has no
  /// such case.
  ///
  /// An event without associated values is tried. Of any other the transitions of this very state are
  /// read: where each of them has a guard, nothing can be said without values.
  package func foresee(caseNamed name: String, in state: State) -> Foresight? {
    guard let tag = EnumCases<Event>.names.firstIndex(of: name) else { return nil }
    if let event = EnumCases<Event>.bareValue(tag: tag) { return foresee(event, in: state) }
    let entries = list(state).entries
    let own = entries.filter { $0.tags.contains(tag) }
    if own.contains(where: { !$0.isGuarded }) { return .taken }
    // One that does not tell its case may be about this one.
    let isUntold = entries.contains { $0.tags.isEmpty }
    return own.isEmpty && !isUntold ? .noTransition : .byValue
  }
}
