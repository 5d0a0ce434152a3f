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
    /// - Parameters:
    ///   - field: What differs most among them, where that is known.
    ///   - fold: The same, as `fold` would name it; `nil` where that is not possible.
    case nodeStates(node: String, limit: Int, field: String?, fold: String?)
    /// A pipe, by its name, has held too many different events.
    case pipeContents(pipe: String, limit: Int)
    case cancelled
    /// A property is violated, and nothing else was asked.
    case firstViolation
    /// A program gave no answer that can be used.
    case noAnswer(program: String)
    /// A node could not be asked what it does with an event.
    case unasked(node: String, event: JSONValue, because: String)
  }

  /// Which states that a fold takes for others were compared with those.
  package enum FoldComparison: Hashable, Sendable {
    /// All that can be reached, so that the fold is proved.
    case all(Int)
    /// So many, and there are more.
    case some(Int)
    /// All, but not what this composite makes of them.
    case notByComposite(String)
  }

  /// Why it is not known whether a property holds.
  package enum UndecidedReason: Hashable, Sendable {
    /// The states backwards did not fit into the memory, or were not all met.
    case memory
    /// It fails where a pipe is full that may hold more in a run.
    case capacity
    /// A node may do anything, or nothing.
    case anyBehaviour
  }

  /// Not every value of a field was tried. The owner is a node or a composite.
  case sampledValues(owner: String, event: String, field: String, tried: [JSONValue])
  /// The events that an effect gives are not declared.
  case assumedGives(node: String, output: String, events: [String])
  /// The events that come from outside are not declared.
  case assumedOutside(owner: String, events: [String])
  /// A pipe was full in some state, and may hold more.
  case lowerCapacity(pipe: String, explored: Int, declared: Int)
  case folded(node: String, field: String, modulo: Int, FoldComparison)
  /// A node was seen to answer one question in two ways, and only one of them was searched.
  case impure(node: String)
  /// A node may give anything at any time.
  case anyBehaviour(node: String)
  /// More was found of a kind than is shown.
  case unshown(ExplorationFinding.Code, count: Int)
  /// A composite sends by rules about the states of a node that may do anything; it was taken to send nothing.
  case silentComposite(composite: String, node: String)
  /// States were told apart by fingerprints.
  /// - Parameter probability: That at least one was left out.
  case fingerprints(probability: Double)
  case undecided(property: String, because: UndecidedReason)
  /// The number of deadlocks or stuck states that were not compared with what the file allows.
  case haltsBeyond(Int)
  /// The number of findings that an entry of the file allows.
  case allowed(AllowedFinding, count: Int)
  case limit(Limit)

  /// What it does to a verdict.
  package var effect: ExplorationVerdict.Degree {
    switch self {
    case .sampledValues, .assumedGives, .assumedOutside, .fingerprints, .lowerCapacity, .impure,
      .silentComposite, .haltsBeyond:
      .sampled
    case .folded(_, _, _, .some), .folded(_, _, _, .notByComposite): .sampled
    case .folded(_, _, _, .all), .anyBehaviour, .allowed, .unshown: .exact
    case .undecided, .limit: .incomplete
    }
  }
}
