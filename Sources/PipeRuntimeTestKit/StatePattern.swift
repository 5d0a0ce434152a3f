import PipeRuntime

/// A pattern for the states of a node that an expectation accepts.
///
/// A string literal matches all states with that label, whatever their values. A dictionary literal
/// matches the state with exactly these values: `"closed"`, `["closing": ["persons": 3]]`.
public struct StatePattern: Sendable, CustomStringConvertible {
  /// The pattern in readable form.
  public let description: String
  private let accepts: @Sendable (JSONValue) -> Bool

  /// Creates a pattern from a predicate.
  /// - Parameter description: The accepted states, in words.
  public init(_ description: String, accepts: @escaping @Sendable (JSONValue) -> Bool) {
    self.description = description
    self.accepts = accepts
  }

  /// Returns whether the pattern accepts a state, given as JSON.
  public func accepts(_ state: JSONValue) -> Bool { accepts(state) as Bool }
}

extension StatePattern {
  /// Accepts the states with this label, whatever their values.
  public static func label(_ label: String) -> StatePattern {
    StatePattern(label) { $0.caseName == label }
  }

  /// Accepts the state with this JSON form. A bare label accepts only the state without values.
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

  /// Accepts the states of a type that satisfy the predicate.
  /// - Parameter description: The accepted states, in words.
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
  /// Creates a pattern for a label.
  public init(stringLiteral label: String) { self = .label(label) }

  /// Creates a pattern for a state with these values.
  public init(dictionaryLiteral members: (String, JSONValue)...) {
    self = .json(.object(Dictionary(members) { _, last in last }))
  }
}

/// Searches the states of one node for a sequence of patterns.
struct StateSearch: Sendable {
  /// Whether other states may occur between the states that match.
  enum Order: Sendable { case inOrder, exactly }

  let patterns: [StatePattern]
  let order: Order
  private var matched: [StateChange] = []

  init(_ patterns: [StatePattern], _ order: Order) {
    self.patterns = patterns
    self.order = order
  }

  /// Adds the next state. Returns the matching states once all patterns have matched.
  mutating func add(_ change: StateChange) -> [StateChange]? {
    switch order {
    case .inOrder:
      if patterns[matched.count].accepts(change.state) { matched.append(change) }
    case .exactly:
      // The longest sequence of states that ends with this state and matches the first patterns.
      var run = change.missed == 0 ? matched + [change] : [change]
      while !run.isEmpty, !zip(run, patterns).allSatisfy({ $1.accepts($0.state) }) {
        run.removeFirst()
      }
      matched = run
    }
    return matched.count == patterns.count ? matched : nil
  }

  /// The patterns, in words.
  var description: String {
    let list = patterns.map(\.description).joined(separator: ", ")
    guard patterns.count > 1 else { return list }
    return order == .inOrder ? "\(list) in this order" : "exactly \(list)"
  }
}
