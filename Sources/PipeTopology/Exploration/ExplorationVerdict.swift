import PipeMachines

/// For what the findings of a search hold.
package struct ExplorationVerdict: Sendable {
  package enum Degree: String, Sendable {
    /// All states were met: what was not found is not there.
    case exact
    /// All states for some values, or under assumptions; each remark says what to declare.
    case sampled
    /// A limit was reached: only what was found is certain.
    case incomplete
  }

  package var remarks: [ExplorationRemark]

  package init(_ remarks: [ExplorationRemark]) { self.remarks = remarks }

  package var degree: Degree {
    if remarks.contains(where: { $0.effect == .incomplete }) { return .incomplete }
    return remarks.contains { $0.effect == .sampled } ? .sampled : .exact
  }
}

/// What is to be known about a verdict.
package enum ExplorationRemark: Hashable, Sendable {
  /// What ended a search before all states were met.
  package enum Limit: Hashable, Sendable {
    /// Unit: states.
    case states(Int)
    case time(Duration)
    /// - Parameters:
    ///   - bytes: What was allowed.
    ///   - wouldHashSave: Whether fingerprints of the states would take less.
    case memory(_ bytes: Int, wouldHashSave: Bool)
    /// A node has too many states.
    /// - Parameter field: What differs most among them, where that is known.
    case nodeStates(node: String, limit: Int, field: String?)
    /// A pipe, by its name, has held too many different events.
    case pipeContents(pipe: String, limit: Int)
    case cancelled
    /// A property is violated, and nothing else was asked.
    case firstViolation
    /// A program gave no answer that can be used.
    case noAnswer(program: String)
  }

  /// Not every value of a field was tried. The owner is a node or a composite.
  case sampledValues(owner: String, event: String, field: String, tried: [JSONValue])
  /// The events that an effect gives are not declared.
  case assumedGives(node: String, output: String, events: [String])
  /// The events that come from outside are not declared.
  case assumedOutside(owner: String, events: [String])
  case lowerCapacity(pipe: String, explored: Int, declared: Int)
  case folded(node: String, field: String, modulo: Int)
  /// A node may give anything at any time.
  case anyBehaviour(node: String)
  /// More was found of a kind than is shown.
  case unshown(ExplorationFinding.Code, count: Int)
  /// States were told apart by fingerprints.
  /// - Parameter probability: That at least one was left out.
  case fingerprints(probability: Double)
  /// The states backwards did not fit into the memory, or were not all met.
  case undecided(property: String)
  case limit(Limit)

  /// What it does to a verdict.
  package var effect: ExplorationVerdict.Degree {
    switch self {
    case .sampledValues, .assumedGives, .assumedOutside, .fingerprints: .sampled
    case .lowerCapacity, .folded, .anyBehaviour: .exact
    case .unshown: .exact
    case .undecided, .limit: .incomplete
    }
  }
}
