import PipeMachines
import PipeSupport

/// A state that a node is waited to be in, as a person writes it.
///
/// A label stands for the state of that name, whatever its values are; a label with its fields for that
/// state alone. Some fields of a state that is a struct stand for it, whatever the others are.
public struct StateCondition: Hashable, Sendable {
  /// A bare label, or a case with its fields; some fields, of a state that is a struct.
  public var state: JSONValue
  /// The names of the state's fields, where the node's state is a struct; `nil` where it is a case, or
  /// where that is not known.
  package var fields: [String]?

  /// Makes a condition.
  public init(_ state: JSONValue) {
    self.state = state
  }

  /// Whether it has the form of a state, or of some fields of one.
  package var isWellFormed: Bool {
    switch state {
    case .string(let label): isIdentifier(label)
    case .object(let members): !members.isEmpty
    case .null, .bool, .integer, .number, .array: false
    }
  }

  /// Whether a state is the one waited for.
  package func matches(_ other: JSONValue) -> Bool {
    if fields != nil, case .object(let members) = state {
      return members.allSatisfy { Self.matches($0.value, other[$0.key] ?? .null) }
    }
    guard let members = state.caseMembers else { return state == other }
    guard state.caseName == other.caseName else { return false }
    return state.string != nil
      || JSONValue.object(members).canonical == other.caseMembers.map { .object($0).canonical }
  }

  /// Whether a field has a value; that of an enum can be given by its bare label.
  private static func matches(_ wanted: JSONValue, _ value: JSONValue) -> Bool {
    wanted.canonical == value.canonical
      || wanted.string != nil && value.caseMembers != nil && wanted.string == value.caseName
  }

  /// A state of the same node for a person to read.
  package func text(of state: JSONValue) -> String { state.stateText(fields: fields) }

  /// Why a machine can never be in this state, in a sentence; `nil` where it may be.
  /// - Parameter owner: Who would be: `node 'door'`.
  package func problem(with machine: MachineDescription, owner: String) -> String? {
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

extension StateCondition: ExpressibleByStringLiteral, CustomStringConvertible {
  /// A label.
  public init(stringLiteral label: String) { self.init(.string(label)) }

  /// The state for a person to read: `closing(persons: 3)`.
  public var description: String { text(of: state) }
}

extension JSONValue {
  /// One of the ways in which people and encoders write the same value: without members that are null, a case without
  /// fields as its label, and an integer without a fraction.
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
