import PipeRuntime

/// Which states of a node an expectation accepts.
///
/// A string literal is a state's label, with whatever values it has; a dictionary literal is a
/// state with its values: `"closed"`, `["closing": ["persons": 3]]`.
public struct StatePattern: Sendable, CustomStringConvertible {
  /// The pattern for a person to read.
  public let description: String
  private let accepts: @Sendable (JSONValue) -> Bool

  /// Accepts what the predicate accepts.
  /// - Parameter description: What is accepted, in words.
  public init(_ description: String, accepts: @escaping @Sendable (JSONValue) -> Bool) {
    self.description = description
    self.accepts = accepts
  }

  /// Whether a state, given as JSON, is accepted.
  public func accepts(_ state: JSONValue) -> Bool { accepts(state) as Bool }
}

extension StatePattern {
  /// Accepts the states of this label, whatever their values.
  public static func label(_ label: String) -> StatePattern {
    StatePattern(label) { $0.caseName == label }
  }

  /// Accepts the state that this is the JSON of; a bare label is the state without values.
  public static func json(_ state: JSONValue) -> StatePattern {
    StatePattern(state.text) { seen in
      guard let label = state.caseName, let members = state.caseMembers else {
        return seen == state
      }
      return seen.caseName == label && seen.caseMembers == members
    }
  }

  /// Accepts exactly this state.
  public static func state<State: MachineState & Equatable>(_ state: State) -> StatePattern {
    StatePattern("\(state)") { seen in
      (try? EventCodec<State>().decode(seen.bytes)) == state
    }
  }

  /// Accepts the states of a type that the predicate accepts.
  /// - Parameter description: What is accepted, in words.
  public static func matching<State: MachineState>(
    _ description: String, _ predicate: @escaping @Sendable (State) -> Bool
  ) -> StatePattern {
    StatePattern(description) { seen in
      guard let state = try? EventCodec<State>().decode(seen.bytes) else { return false }
      return predicate(state)
    }
  }
}

extension StatePattern: ExpressibleByStringLiteral, ExpressibleByDictionaryLiteral {
  /// A label.
  public init(stringLiteral label: String) { self = .label(label) }

  /// A state with its values.
  public init(dictionaryLiteral members: (String, JSONValue)...) {
    self = .json(.object(Dictionary(members) { _, last in last }))
  }
}
