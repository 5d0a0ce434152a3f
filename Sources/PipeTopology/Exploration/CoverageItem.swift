import PipeMachines

/// A part of a topology's behavior that a scenario covers by taking a step.
package enum CoverageItem: Hashable, Sendable {
  /// A transition of a node between states with these names.
  ///
  /// The event of a timer is `(after)`. All states of a machine whose state is a struct have the
  /// name `state`. The instances of a node with a `key` count as the node.
  case transition(node: String, from: String, event: String, to: String)
  /// A synchronized event that all its participants accept.
  case synchronized(composite: String, event: String)

  package var isTransition: Bool {
    if case .transition = self { true } else { false }
  }

  /// The item in one line, such as `door: open on close -> closing`.
  package var text: String {
    switch self {
    case .transition(let node, let from, let event, let to): "\(node): \(from) on \(event) -> \(to)"
    case .synchronized(let composite, let event): "\(composite): \(event) (synchronized)"
    }
  }

  package var json: JSONValue {
    switch self {
    case .transition(let node, let from, let event, let to):
      [
        "node": .string(node), "from": .string(from), "event": .string(event), "to": .string(to),
      ]
    case .synchronized(let composite, let event):
      ["composite": .string(composite), "event": .string(event)]
    }
  }
}

extension Collection<CoverageItem> {
  /// The number of transitions and of synchronized events, such as
  /// `12 transitions and 2 synchronized events`.
  package var countText: String {
    let transitions = count(where: \.isTransition)
    let events = count - transitions
    return transitions.counted("transition")
      + (events > 0 ? " and " + events.counted("synchronized event") : "")
  }
}

/// Scenarios that together cover all reachable transitions and synchronized events.
package struct ScenarioCover: Sendable {
  /// All transitions and synchronized events that the search has found.
  package var items: Set<CoverageItem>
  package var scenarios: [Scenario]

  package init(items: Set<CoverageItem>, scenarios: [Scenario]) {
    self.items = items
    self.scenarios = scenarios
  }
}
