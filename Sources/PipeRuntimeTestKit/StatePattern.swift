import PipeRuntime

/// A pattern that describes which states an expectation accepts.
///
/// A string literal such as `"closed"` accepts each state with this label, whatever its values. A
/// dictionary literal such as `["closing": ["persons": 3]]` accepts only the state with exactly
/// these values.
public struct StatePattern: Sendable, CustomStringConvertible {
  /// A readable form of the pattern.
  public let description: String
  private let accepts: @Sendable (JSONValue) -> Bool

  /// Creates a pattern from a predicate.
  /// - Parameter description: A description of the accepted states, for messages.
  public init(_ description: String, accepts: @escaping @Sendable (JSONValue) -> Bool) {
    self.description = description
    self.accepts = accepts
  }

  /// Returns whether the pattern accepts a state, given as JSON.
  public func accepts(_ state: JSONValue) -> Bool { accepts(state) as Bool }
}

extension StatePattern {
  /// Returns a pattern that accepts each state with this label, whatever its values.
  public static func label(_ label: String) -> StatePattern {
    StatePattern(label) { $0.caseName == label }
  }

  /// Returns a pattern that accepts the state with this JSON. If the JSON is a label, the pattern
  /// accepts only the state without values.
  public static func json(_ state: JSONValue) -> StatePattern {
    StatePattern(state.text) { seen in
      guard let label = state.caseName, let members = state.caseMembers else {
        return seen == state
      }
      return seen.caseName == label && seen.caseMembers == members
    }
  }

  /// Returns a pattern that accepts exactly this state.
  public static func state<State: MachineState & Equatable>(_ state: State) -> StatePattern {
    StatePattern("\(state)") { seen in
      (try? EventCodec<State>().decode(seen.bytes)) == state
    }
  }

  /// Returns a pattern that accepts states of type `State` that satisfy a predicate.
  ///
  /// ```swift
  /// let isCrowded = StatePattern.matching("at least three persons") { (state: Cabin.State) in
  ///   state.persons >= 3
  /// }
  /// ```
  /// - Parameter description: A description of the accepted states, for messages.
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
  /// Creates a pattern that accepts each state with this label, whatever its values.
  public init(stringLiteral label: String) { self = .label(label) }

  /// Creates a pattern that accepts the state with exactly these values.
  public init(dictionaryLiteral members: (String, JSONValue)...) {
    self = .json(.object(Dictionary(members) { _, last in last }))
  }
}

/// Searches the states of a node for states that match a sequence of patterns.
struct StateSearch: Sendable {
  /// Whether other states may be between the matching states: with `inOrder`, they may; with
  /// `exactly`, they may not.
  enum Order: Sendable { case inOrder, exactly }

  let patterns: [StatePattern]
  let order: Order
  private var matchedStates: [StateChange] = []

  init(_ patterns: [StatePattern], _ order: Order) {
    self.patterns = patterns
    self.order = order
  }

  /// Adds the node's next state to the search. Returns the matching states if all patterns have
  /// matched, and otherwise `nil`.
  mutating func add(_ change: StateChange) -> [StateChange]? {
    switch order {
    case .inOrder:
      if patterns[matchedStates.count].accepts(change.state) { matchedStates.append(change) }
    case .exactly:
      // Finds the longest run of states that matches the first patterns. The run ends with this
      // state, and its states are consecutive: missed states interrupt a run.
      var run = change.missedCount == 0 ? matchedStates + [change] : [change]
      while !run.isEmpty, !zip(run, patterns).allSatisfy({ $1.accepts($0.state) }) {
        run.removeFirst()
      }
      matchedStates = run
    }
    return matchedStates.count == patterns.count ? matchedStates : nil
  }

  /// A description of the patterns, for messages.
  var description: String {
    let list = patterns.map(\.description).joined(separator: ", ")
    guard patterns.count > 1 else { return list }
    return order == .inOrder ? "\(list) in this order" : "exactly \(list)"
  }
}
