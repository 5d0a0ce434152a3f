import PipeMachines
import PipeSupport

/// A condition on the state of a node, as written in a file or on a command line.
///
/// A state's name without fields matches the state with any values. A name with fields matches the
/// state only with these values. If the state is a struct, the condition can list some of the
/// struct's fields; other fields can have any values.
public struct StateCondition: Hashable, Sendable {
  /// The condition as JSON: a state's name, a name with fields, or some fields of a struct.
  public var state: JSONValue
  /// The names of the state's fields if the state is a struct; `nil` if the state is an enum, or
  /// its type is unknown.
  package var fields: [String]?

  /// Makes a condition.
  public init(_ state: JSONValue) {
    self.state = state
  }

  /// Whether the condition has a valid form.
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
      || JSONValue.object(members).canonicalForm
        == other.caseMembers.map { .object($0).canonicalForm }
  }

  /// Returns whether a field has the wanted value. If `wanted` is only the name of an enum case,
  /// the field matches if its value is this case, with any associated values.
  private static func matches(_ wanted: JSONValue, _ value: JSONValue) -> Bool {
    wanted.canonicalForm == value.canonicalForm
      || wanted.string != nil && value.caseMembers != nil && wanted.string == value.caseName
  }

  /// Returns a state of the node as readable text, such as `closing(persons: 3)`.
  package func text(of state: JSONValue) -> String { state.stateText(fields: fields) }

  /// Returns a sentence that says why a machine can never be in this state; `nil` if there is no
  /// such reason.
  /// - Parameter owner: The node as named in the message, such as `node 'door'`.
  package func problem(with machine: MachineDescription, owner: String) -> String? {
    if let fields = machine.stateFields {
      return fields.problem(withSome: state, owner: "the state of \(owner)")
    }
    if state.string != nil {
      // Only the name of the state is given, so missing fields are no error.
      let labels = machine.states.map { CaseDescription(name: $0.name) }
      return labels.problem(with: state, noun: "state", owner: owner)
    }
    return machine.states.problem(with: state, noun: "state", owner: owner)
  }
}

extension StateCondition: ExpressibleByStringLiteral, CustomStringConvertible {
  /// Makes a condition that is only a state's name.
  public init(stringLiteral label: String) { self.init(.string(label)) }

  /// The condition as readable text, such as `closing(persons: 3)`.
  public var description: String { text(of: state) }
}

extension JSONValue {
  /// The canonical form of a value that can be written in several ways: members with the value null
  /// are omitted, a case without fields is only its name, and integers have no fraction.
  fileprivate var canonicalForm: JSONValue {
    switch self {
    case .null, .bool, .integer, .string: return self
    case .number(let number): return Int64(exactly: number).map { .integer($0) } ?? self
    case .array(let elements): return .array(elements.map(\.canonicalForm))
    case .object(let members):
      if members.count == 1, let only = members.first, only.value == [:] {
        return .string(only.key)
      }
      return .object(members.filter { $0.value != .null }.mapValues(\.canonicalForm))
    }
  }
}
