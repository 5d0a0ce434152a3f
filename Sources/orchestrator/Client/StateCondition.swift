import PipeRuntime

/// A state that a node is waited to be in: `door=closed`.
package struct StateCondition: Hashable, Sendable {
  package let node: String
  /// A bare label, or a case with its fields; some fields, of a state that is a struct.
  package let state: JSONValue
  /// The names of the state's fields, where the node's state is a struct.
  package var stateFields: [String]?

  /// Reads `NODE=STATE`.
  package init(_ text: String) throws(CommandError) {
    guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
      throw CommandError(
        "'\(text)' is no NODE=STATE. Write it as in 'door=closed'", code: .usage)
    }
    node = String(text[..<equals])
    state = try Self.parse(String(text[text.index(after: equals)...]))
  }

  private static func parse(_ text: String) throws(CommandError) -> JSONValue {
    do {
      return try CaseArgument.parse(text, noun: "state")
    } catch {
      // The fields of a struct; of which node it is, and so whether it can be, is not known here.
      guard let value = try? JSONValue(parsing: text.utf8), case .object(let fields) = value,
        !fields.isEmpty
      else { throw error }
      return value
    }
  }

  /// Whether a state is the one waited for. A bare label matches whatever the fields are; fields of
  /// a struct match whatever the others are.
  package func matches(_ other: JSONValue) -> Bool {
    if stateFields != nil, case .object(let members) = state {
      return members.allSatisfy { Self.matches($0.value, other[$0.key] ?? .null) }
    }
    guard let members = state.caseMembers else { return state == other }
    guard state.caseName == other.caseName else { return false }
    return state.string != nil || members == other.caseMembers
  }

  /// Whether a field has a value; that of an enum can be given by its bare label.
  private static func matches(_ wanted: JSONValue, _ value: JSONValue) -> Bool {
    wanted == value
      || wanted.string != nil && value.caseMembers != nil && wanted.string == value.caseName
  }

  fileprivate func text(of state: JSONValue) -> String { state.stateText(fields: stateFields) }

  /// Why the node can never be in this state, or `nil`.
  package func problem(with machine: MachineDescription) -> String? {
    let owner = "node '\(node)'"
    if let fields = machine.stateFields {
      return fields.problem(withSome: state, owner: "the state of \(owner)")
    }
    if state.string != nil {
      // The label alone: its fields are not missing.
      let labels = machine.states.map { CaseDescription(name: $0.name) }
      return labels.problem(with: state, noun: "state", owner: owner)
    }
    return machine.states.problem(with: state, noun: "state", owner: owner)
  }
}

/// Conditions that are each to be met once.
package struct StateConditions: Sendable {
  package let all: [StateCondition]
  private var met: [StateChange?]
  private var latest: [String: JSONValue] = [:]

  package init(_ conditions: [StateCondition]) {
    all = conditions
    met = conditions.map { _ in nil }
  }

  /// Takes a change. Returns whether all conditions have been met.
  package mutating func take(_ change: StateChange) -> Bool {
    latest[change.node] = change.state
    for (index, condition) in all.enumerated()
    where met[index] == nil && condition.node == change.node && condition.matches(change.state) {
      met[index] = change
    }
    return isMet
  }

  package var isMet: Bool { !met.contains(nil) }

  /// The changes that met the conditions, in the conditions' order.
  package var changes: [StateChange] { met.compactMap(\.self) }

  /// What is still missing, with what each node is at.
  /// - Parameter absences: Why nodes do not run, by node.
  package func missing(absences: [String: String] = [:]) -> String {
    zip(all, met).filter { $0.1 == nil }.map { condition, _ in
      let node = condition.node
      let present =
        absences[node] ?? latest[node].map { "is in \(condition.text(of: $0))" }
        ?? "has told no state yet"
      return "'\(node)' \(present), not in \(condition.text(of: condition.state))"
    }.joined(separator: "; ")
  }
}
