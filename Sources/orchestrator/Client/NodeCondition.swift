import PipeRuntime

/// A node that is waited for, and the state: `door=closed`.
package struct NodeCondition: Hashable, Sendable {
  package let node: String
  package var state: StateCondition

  /// Reads `NODE=STATE`.
  package init(_ text: String) throws(CommandError) {
    guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
      throw CommandError(
        "'\(text)' is no NODE=STATE. Write it as in 'door=closed'", code: .usage)
    }
    node = String(text[..<equals])
    state = StateCondition(try Self.parse(String(text[text.index(after: equals)...])))
  }

  private static func parse(_ text: String) throws(CommandError) -> JSONValue {
    do {
      return try CaseArgument.parse(text, noun: "state")
    } catch {
      // The fields of a struct; of which node it is, and so whether it can be, is not known here.
      guard let value = try? JSONValue(parsing: text.utf8), case .object = value,
        StateCondition(value).isWellFormed
      else { throw error }
      return value
    }
  }

  /// Why the node can never be in this state, or `nil`.
  package func problem(with machine: MachineDescription) -> String? {
    state.problem(with: machine, owner: "node '\(node)'")
  }
}

/// Conditions that are each to be met once.
package struct NodeConditions: Sendable {
  package let all: [NodeCondition]
  private var met: [StateChange?]
  private var latest: [String: JSONValue] = [:]

  package init(_ conditions: [NodeCondition]) {
    all = conditions
    met = conditions.map { _ in nil }
  }

  /// Takes a change. Returns whether all conditions have been met.
  package mutating func take(_ change: StateChange) -> Bool {
    latest[change.node] = change.state
    for (index, condition) in all.enumerated()
    where met[index] == nil && condition.node == change.node
      && condition.state.matches(change.state)
    {
      met[index] = change
    }
    return isMet
  }

  package var isMet: Bool { !met.contains(nil) }

  /// The changes that met the conditions, in the conditions' order.
  package var changes: [StateChange] { met.compactMap(\.self) }

  /// What is still missing, with what each node is at.
  /// - Parameters:
  ///   - absences: Why nodes do not run, by node.
  ///   - states: The states of nodes that have told none while they were waited for.
  package func missing(
    absences: [String: String] = [:], states: [String: JSONValue] = [:]
  ) -> String {
    zip(all, met).filter { $0.1 == nil }.map { condition, _ in
      let node = condition.node
      let present =
        absences[node]
        ?? (latest[node] ?? states[node]).map { "is in \(condition.state.text(of: $0))" }
        ?? "has told no state yet"
      return "'\(node)' \(present), not in \(condition.state)"
    }.joined(separator: "; ")
  }
}
