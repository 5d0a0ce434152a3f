import PipeMachines

/// The verdict of a search: how certain it is that there are no other findings.
package struct ExplorationVerdict: Sendable {
  package enum Degree: String, Sendable {
    /// The search visited all reachable states, so there are no other findings.
    case exact
    /// The search visited all reachable states, but tried only some values or made assumptions.
    /// Each remark says what to declare for an exact verdict.
    case sampled
    /// The search ended at a limit. Its findings are certain, but there may be others.
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
    /// The search has visited this number of states, which is the maximum.
    case states(Int)
    case time(Duration)
    /// The search has used all the memory that it may use.
    /// - Parameters:
    ///   - bytes: The memory limit.
    ///   - hashingSavesMemory: Whether storing hashes instead of states would need less memory.
    case memory(_ bytes: Int, hashingSavesMemory: Bool)
    /// A node has more states than the limit.
    /// - Parameters:
    ///   - field: The field with the most values among the states, if known.
    ///   - fold: The name of this field for `fold`; `nil` if the field cannot be folded.
    case nodeStates(node: String, limit: Int, field: String?, fold: String?)
    /// A pipe has contained more different sequences of events than the limit.
    case pipeContents(pipe: String, limit: Int)
    case cancelled
    /// A property is violated, and the search checked only properties.
    case firstViolation
    /// A program did not send a valid answer.
    case noAnswer(program: String)
    /// An event has a key that the search does not explore. The event was discarded.
    case unexploredKey(node: String, key: String)
    /// The step evaluator could not compute the step of a node for an event.
    case notEvaluated(node: String, event: JSONValue, because: String)
  }

  /// How completely the merged states of a fold were compared. Merged states must behave alike.
  package enum FoldComparison: Hashable, Sendable {
    /// All merged states were compared, so the fold is proved to be correct.
    case all(Int)
    /// Only this number of merged states was compared.
    case some(Int)
    /// All merged states were compared, but without the behavior of this composite.
    case notByComposite(String)
  }

  /// The reason why a property is undecided.
  package enum UndecidedReason: Hashable, Sendable {
    /// The backward search did not fit into memory, or the search stored only hashes of states.
    case memory
    /// The property fails only in states where a pipe is full in the search and would have more
    /// capacity at run time.
    case capacity
    /// The property depends on a node listed under `any`, whose steps are unknown.
    case anyBehaviour
  }

  /// The search tried only some values of an event's field. The owner is the receiving node or
  /// composite.
  case sampledValues(owner: String, event: String, field: String, tried: [JSONValue])
  /// The events of an effect are not declared, so the search assumed these events.
  case assumedGives(node: String, output: String, events: [String])
  /// The events from outside are not declared, so the search assumed these events.
  case assumedOutside(owner: String, events: [String])
  /// A pipe was full in the search, although it has more capacity at run time.
  case lowerCapacity(pipe: String, explored: Int, declared: Int)
  /// A pipe was full in the search. In a run, an instance that is locked by a synchronized event may
  /// send events into the full pipe.
  case fullWhileLocked(pipe: String)
  case folded(node: String, field: String, modulo: Int, FoldComparison)
  /// The search covers only some instances of a node: the instances with these keys.
  /// - Parameter keep: How long an instance is kept after it has ended; `nil` if instances never
  ///   end.
  case instances(node: String, keys: [String], keep: Duration?)
  /// The search assumed that an effect of an instance emits only events with the key of this
  /// instance.
  case effectKeys(node: String, field: String)
  /// A node took different steps for the same event in the same state, and the search followed only
  /// one of them.
  case impure(node: String)
  /// A node is listed under `any`, so the search assumed that it may send any event at any time.
  case anyBehaviour(node: String)
  /// The number of findings with this code that the report does not show.
  case unshown(ExplorationFinding.Code, count: Int)
  /// A pipe rule of a composite depends on a node listed under `any`, so the search assumed that
  /// the composite sends no events.
  case silentComposite(composite: String, node: String)
  /// The search compared states by their hashes.
  /// - Parameter probability: The probability that the search missed at least one state.
  case fingerprints(probability: Double)
  case undecided(property: String, because: UndecidedReason)
  /// The number of deadlocks or stuck states that were not compared with the allowed findings.
  case uncheckedHalts(Int)
  /// The number of findings that match an entry of `allow`.
  case allowed(AllowedFinding, count: Int)
  case limit(Limit)

  /// The highest degree of certainty that a verdict with this remark can have.
  package var effect: ExplorationVerdict.Degree {
    switch self {
    case .sampledValues, .assumedGives, .assumedOutside, .fingerprints, .lowerCapacity, .impure,
      .fullWhileLocked, .silentComposite, .uncheckedHalts:
      .sampled
    case .folded(_, _, _, .some), .folded(_, _, _, .notByComposite): .sampled
    case .folded(_, _, _, .all), .anyBehaviour, .allowed, .unshown, .instances, .effectKeys:
      .exact
    case .undecided, .limit: .incomplete
    }
  }
}
