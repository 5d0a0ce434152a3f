import PipeMachines

/// The scope for which the results of a search hold.
package struct ExplorationVerdict: Sendable {
  package enum Degree: String, Sendable {
    /// The search visited all states: anything that it did not find does not exist.
    case exact
    /// The search visited all states, but with some values only or under assumptions; each remark
    /// says what to declare.
    case sampled
    /// The search reached a limit: only its findings are certain.
    case incomplete
  }

  package var remarks: [ExplorationRemark]

  package init(_ remarks: [ExplorationRemark]) { self.remarks = remarks }

  package var degree: Degree {
    if remarks.contains(where: { $0.effect == .incomplete }) { return .incomplete }
    return remarks.contains { $0.effect == .sampled } ? .sampled : .exact
  }
}

/// A remark that qualifies a verdict.
package enum ExplorationRemark: Hashable, Sendable {
  /// The reason why a search ended before it visited all states.
  package enum Limit: Hashable, Sendable {
    /// Unit: states.
    case states(Int)
    case time(Duration)
    /// - Parameters:
    ///   - bytes: The memory limit.
    ///   - hashingSavesMemory: Whether storing fingerprints of the states would need less memory.
    case memory(_ bytes: Int, hashingSavesMemory: Bool)
    /// A node has more states than the limit.
    /// - Parameters:
    ///   - field: The field with the most values among the states, if known.
    ///   - fold: The name of that field for `fold`; `nil` if it cannot be folded.
    case nodeStates(node: String, limit: Int, field: String?, fold: String?)
    /// A pipe, by its name, has held more different sequences of events than the limit.
    case pipeContents(pipe: String, limit: Int)
    case cancelled
    /// A property is violated, and the search was for properties only.
    case firstViolation
    /// A program did not send a valid answer.
    case noAnswer(program: String)
    /// The reaction of a node to an event could not be evaluated.
    case notEvaluated(node: String, event: JSONValue, because: String)
  }

  /// The states merged by a fold that were compared with each other.
  package enum FoldComparison: Hashable, Sendable {
    /// All reachable states were compared, so the fold is proved.
    case all(Int)
    /// Only this number of states were compared; there are more.
    case some(Int)
    /// All states were compared, but not the behavior of this composite in them.
    case notByComposite(String)
  }

  /// The reason why a property is undecided.
  package enum UndecidedReason: Hashable, Sendable {
    /// The search backwards did not fit into memory, or did not visit all states.
    case memory
    /// The property fails only where a pipe is full that can hold more events at run time.
    case capacity
    /// A node under `any` may do anything, or nothing.
    case anyBehaviour
  }

  /// Not every value of a field was tried; the owner is a node or a composite.
  case sampledValues(owner: String, event: String, field: String, tried: [JSONValue])
  /// The events that an effect emits are not declared.
  case assumedGives(node: String, output: String, events: [String])
  /// The events that come from outside are not declared.
  case assumedOutside(owner: String, events: [String])
  /// A pipe was full in some state, but can hold more events at run time.
  case lowerCapacity(pipe: String, explored: Int, declared: Int)
  case folded(node: String, field: String, modulo: Int, FoldComparison)
  /// A node gave two answers to the same question, and the search followed only one.
  case impure(node: String)
  /// A node may send anything at any time.
  case anyBehaviour(node: String)
  /// There are more findings of a kind than the report shows.
  case unshown(ExplorationFinding.Code, count: Int)
  /// A composite has rules on the states of a node under `any`; the search assumed that it sends nothing.
  case silentComposite(composite: String, node: String)
  /// States were distinguished by fingerprints.
  /// - Parameter probability: The probability that the search missed at least one state.
  case fingerprints(probability: Double)
  case undecided(property: String, because: UndecidedReason)
  /// The number of deadlocks or stuck states that were not compared with the allowed findings.
  case uncheckedHalts(Int)
  /// The number of findings that an entry of `allow` matches.
  case allowed(AllowedFinding, count: Int)
  case limit(Limit)

  /// The best verdict that is possible with the remark.
  package var effect: ExplorationVerdict.Degree {
    switch self {
    case .sampledValues, .assumedGives, .assumedOutside, .fingerprints, .lowerCapacity, .impure,
      .silentComposite, .uncheckedHalts:
      .sampled
    case .folded(_, _, _, .some), .folded(_, _, _, .notByComposite): .sampled
    case .folded(_, _, _, .all), .anyBehaviour, .allowed, .unshown: .exact
    case .undecided, .limit: .incomplete
    }
  }
}
