import PipeMachines
import PipeSupport

/// A condition on the state of a node, as a person writes it.
///
/// A bare label matches the state of that name with any values; a label with its fields matches
/// only that
/// exact state. For a state that is a struct, a condition can list some fields and ignores the
/// others.
public struct StateCondition: Hashable, Sendable {
  /// A bare label, a case with its fields, or some fields of a state that is a struct.
  public var state: JSONValue
  /// The field names of a node's struct state; `nil` if the state is an enum case, or its type is
  /// unknown.
  package var fields: [String]?

  /// Makes a condition.
  public init(_ state: JSONValue) {
    self.state = state
  }

  /// Whether the condition has the form of a state, or of some fields of one.
  package var isWellFormed: Bool {
    switch state {
    case .string(let label): isIdentifier(label)
    case .object(let members): !members.isEmpty
    case .null, .bool, .integer, .number, .array: false
    }
  }

  /// Returns whether a state meets the condition.
  package func matches(_ other: JSONValue) -> Bool {
    if fields != nil, case .object(let members) = state {
      return members.allSatisfy { Self.matches($0.value, other[$0.key] ?? .null) }
    }
    guard let members = state.caseMembers else { return state == other }
    guard state.caseName == other.caseName else { return false }
    return state.string != nil
      || JSONValue.object(members).canonical == other.caseMembers.map { .object($0).canonical }
  }

  /// Returns whether a field has the wanted value; an enum value matches its bare label as well.
  private static func matches(_ wanted: JSONValue, _ value: JSONValue) -> Bool {
    wanted.canonical == value.canonical
      || wanted.string != nil && value.caseMembers != nil && wanted.string == value.caseName
  }

  /// Returns a readable form of a state of the same node.
  package func text(of state: JSONValue) -> String { state.stateText(fields: fields) }

  /// Returns a sentence on why a machine can never be in this state, or `nil` if it can.
  /// - Parameter owner: The node as named in the message: `node 'door'`.
  package func problem(with machine: MachineDescription, owner: String) -> String? {
    if let fields = machine.stateFields {
      return fields.problem(withSome: state, owner: "the state of \(owner)")
    }
    if state.string != nil {
      // Only the label is given, so missing fields are no error.
      let labels = machine.states.map { CaseDescription(name: $0.name) }
      return labels.problem(with: state, noun: "state", owner: owner)
    }
    return machine.states.problem(with: state, noun: "state", owner: owner)
  }
}

extension StateCondition: ExpressibleByStringLiteral, CustomStringConvertible {
  /// Makes a condition from a label.
  public init(stringLiteral label: String) { self.init(.string(label)) }

  /// A readable form of the state: `closing(persons: 3)`.
  public var description: String { text(of: state) }
}

extension JSONValue {
  /// The canonical form of a value that can be written in several ways: members that are null are
  /// left out, a case without fields is its label, and an integer has no fraction.
  fileprivate var canonical: JSONValue {
    switch self {
    case .null, .bool, .integer, .string: return self
    case .number(let number): return Int64(exactly: number).map { .integer($0) } ?? self
    case .array(let elements): return .array(elements.map(\.canonical))
    case .object(let members):
      if members.count == 1, let only = members.first, only.value == [:] {
        return .string(only.key)
      }
      return .object(members.filter { $0.value != .null }.mapValues(\.canonical))
    }
  }
}
