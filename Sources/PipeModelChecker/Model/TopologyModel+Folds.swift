import PipeMachines
import PipeTopology
import PipeWire

// The check of `fold`: states that a fold merges must behave alike.
extension TopologyModel {
  /// The result of checking the fold of a node.
  enum FoldProof {
    /// Every reachable state behaves like its representative, the folded state.
    case proved(states: Int)
    /// Only this number of states was compared, and each of these states behaves like its
    /// representative.
    case compared(states: Int)
    /// All states behave like their representatives, but the behavior of this composite was not
    /// compared.
    case composite(String)
    case broken
  }

  /// The maximum number of states to compare for a small node. For a node with many configurations,
  /// the maximum is twice the number of its configurations.
  private static let comparedStateLimit = 200

  /// Compares each state that a fold changes with the state's representative, which is the folded
  /// state. Then compares the successors of the state in the same way.
  ///
  /// The check evaluates a state with all inputs that the representative got in the search. So the
  /// check finds any guard that treats the two states differently. If all states are compared
  /// without a difference, it follows by induction over the steps that the system does exactly what
  /// the folded system does. The check ends early if there are too many states.
  func checkFolds() {
    for place in nodes.indices where section.foldModuli[nodes[place].baseName]?.isEmpty == false {
      foldProofs[place] = checkFold(of: place)
    }
  }

  private func checkFold(of place: Int) -> FoldProof {
    let node = nodes[place]
    guard case .machine(let evaluator) = node.kind else { return .proved(states: 0) }
    var inputs: [Int: [EvaluatorInput]] = [:]
    for question in outcomesByQuestion.keys where question.node == place {
      inputs[question.configuration, default: []].append(question.input)
    }
    let limit = max(Self.comparedStateLimit, 2 * node.configurations.count)
    var compared = 0
    while compared < node.mergedConfigurations.count {
      guard compared < limit else { return .compared(states: compared) }
      let (number, member) = node.mergedConfigurations[compared]
      compared += 1
      let comparedInputs = (inputs[number] ?? []).filter {
        // Skips steps without an answer. They already make the verdict incomplete, and might take
        // long again.
        if case .evaluatorError = evaluator.evaluateRow(
          node.name, node.configurations[number], [$0])[0]
        {
          false
        } else {
          true
        }
      }
      let replies = evaluator.evaluateRow(node.name, node.configurations[number], comparedInputs)
      let others = evaluator.evaluateRow(node.name, member, comparedInputs)
      for (input, pair) in zip(comparedInputs, zip(replies, others)) {
        guard behaveAlike(pair.0, pair.1, node) else {
          discoverBrokenFold(place, input, [node.configurations[number], member])
          return .broken
        }
        if case .answer(.accepted(let next, _, _)) = pair.1 { node.record(member: next) }
        if case .answer(.fired(_, let next, _)) = pair.1 { node.record(member: next) }
        if case .answer(.refused(_, let next)) = pair.1 { node.record(member: next) }
      }
    }
    let composite = composites.first { $0.nodeIndices.contains(place) }
    return composite.map { .composite($0.name) } ?? .proved(states: compared)
  }

  private func behaveAlike(
    _ reply: ProgramEvaluator.Reply, _ other: ProgramEvaluator.Reply, _ node: ExploredNode
  ) -> Bool {
    switch (reply, other) {
    case (.answer(let answer), .answer(let other)):
      folded(answer, node) == folded(other, node)
    // An impure step is a separate finding.
    case (.impure, _), (_, .impure), (.evaluatorError, .evaluatorError): true
    case (.answer, .evaluatorError), (.evaluatorError, .answer): false
    }
  }

  private func folded(_ answer: EvaluatorAnswer, _ node: ExploredNode) -> EvaluatorAnswer {
    switch answer {
    case .accepted(let next, let sends, let kind):
      .accepted(configuration: node.folded(next), sends: sends, transition: kind)
    case .fired(_, let next, let sends):
      // Omits the duration from the comparison: in the search, timers of different nodes fire in
      // any order, whatever their durations are.
      .fired(after: "", configuration: node.folded(next), sends: sends)
    case .refused(let refusal, let next):
      .refused(reason: refusal, configuration: node.folded(next))
    case .opened, .undecodable, .undecided, .invalid, .projected, .replaying, .replayed: answer
    }
  }

  private func discoverBrokenFold(
    _ place: Int, _ input: EvaluatorInput, _ states: [EvaluatorConfiguration]
  ) {
    let node = nodes[place]
    guard let field = section.foldModuli[node.baseName]?.sorted(by: { $0.key < $1.key }).first
    else {
      return
    }
    let event: JSONValue? =
      switch input {
      case .take(let event), .give(_, let event): event
      case .fire: .string(TransitionCounts.timerEventName)
      case .end: nil
      }
    discover(
      .brokenFold(
        node: node.name, field: field.key, modulo: field.value, event: event,
        states: states.map(\.state)),
      at: ["explore", "fold", node.baseName, field.key], nil, nil)
  }

  /// The verdict's remarks about folds.
  var foldRemarks: [ExplorationRemark] {
    nodes.indices.flatMap { place in
      (section.foldModuli[nodes[place].baseName] ?? [:]).map { field, modulo in
        .folded(
          node: nodes[place].name, field: field, modulo: modulo, comparison(of: foldProofs[place]))
      }
    }
  }

  private func comparison(of proof: FoldProof?) -> ExplorationRemark.FoldComparison {
    switch proof {
    case .proved(let states): .all(states)
    case .compared(let states): .some(states)
    case .composite(let name): .notByComposite(name)
    case .broken, nil: .some(0)
    }
  }
}
