import PipeMachines
import PipeTopology
import PipeWire

// States that `fold` merges must behave alike.
extension TopologyModel {
  /// The result of checking the fold of a node.
  enum FoldProof {
    /// Every reachable state behaves like its representative.
    case proved(states: Int)
    /// This number of states behave like their representatives, but there are more states.
    case compared(states: Int)
    /// The behavior of a composite in the merged states was not compared.
    case composite(String)
    case broken
  }

  /// The number of states of one node that are always compared.
  private static let comparedStateLimit = 200

  /// Compares each state of a folded node with its representative, and continues with the successor
  /// states.
  ///
  /// It stops when all states are compared, or when there are too many. Each state gets all inputs
  /// that its representative got in the search. So the check finds a guard that treats the two
  /// states differently, whatever the round. By induction over the steps, the system then does
  /// exactly what the folded system does.
  func checkFolds() {
    for place in nodes.indices where section.fold[nodes[place].name]?.isEmpty == false {
      foldProofs[place] = checkFold(of: place)
    }
  }

  private func checkFold(of place: Int) -> FoldProof {
    let node = nodes[place]
    guard case .machine(let evaluator) = node.kind else { return .proved(states: 0) }
    var inputs: [Int: [EvaluatorInput]] = [:]
    for question in answers.keys where question.node == place {
      inputs[question.configuration, default: []].append(question.input)
    }
    let limit = max(Self.comparedStateLimit, 2 * node.configurations.count)
    var compared = 0
    while compared < node.members.count {
      guard compared < limit else { return .compared(states: compared) }
      let (number, member) = node.members[compared]
      compared += 1
      let comparedInputs = (inputs[number] ?? []).filter {
        // A step without an answer already makes the verdict incomplete, and may take as long again.
        if case .evaluatorError = evaluator.row(node.name, node.configurations[number], [$0])[0] {
          false
        } else {
          true
        }
      }
      let replies = evaluator.row(node.name, node.configurations[number], comparedInputs)
      let others = evaluator.row(node.name, member, comparedInputs)
      for (input, pair) in zip(comparedInputs, zip(replies, others)) {
        guard behaveAlike(pair.0, pair.1, node) else {
          discoverBrokenFold(place, input, [node.configurations[number], member])
          return .broken
        }
        if case .answer(.accepted(let next, _)) = pair.1 { node.note(member: next) }
        if case .answer(.refused(_, let next)) = pair.1 { node.note(member: next) }
      }
    }
    let composite = composites.first { $0.nodes.contains(place) }
    return composite.map { .composite($0.name) } ?? .proved(states: compared)
  }

  private func behaveAlike(
    _ reply: ProgramEvaluator.Reply, _ other: ProgramEvaluator.Reply, _ node: ExploredNode
  ) -> Bool {
    switch (reply, other) {
    case (.answer(let answer), .answer(let other)):
      folded(answer, node) == folded(other, node)
    // A difference between answers to the same question is a separate finding.
    case (.impure, _), (_, .impure), (.evaluatorError, .evaluatorError): true
    case (.answer, .evaluatorError), (.evaluatorError, .answer): false
    }
  }

  private func folded(_ answer: EvaluatorAnswer, _ node: ExploredNode) -> EvaluatorAnswer {
    switch answer {
    case .accepted(let next, let sends):
      .accepted(configuration: node.folded(next), sends: sends)
    case .refused(let refusal, let next):
      .refused(reason: refusal, configuration: node.folded(next))
    case .opened, .undecodable, .undecided, .invalid, .projected: answer
    }
  }

  private func discoverBrokenFold(
    _ place: Int, _ input: EvaluatorInput, _ states: [EvaluatorConfiguration]
  ) {
    let node = nodes[place]
    guard let field = section.fold[node.name]?.sorted(by: { $0.key < $1.key }).first else { return }
    let event: JSONValue? =
      switch input {
      case .take(let event), .give(_, let event): event
      case .end: nil
      }
    discover(
      .brokenFold(
        node: node.name, field: field.key, modulo: field.value, event: event,
        states: states.map(\.state)),
      at: ["explore", "fold", node.name, field.key], nil, nil)
  }

  /// The remarks of the verdict on folds.
  var foldRemarks: [ExplorationRemark] {
    nodes.indices.flatMap { place in
      (section.fold[nodes[place].name] ?? [:]).map { field, modulo in
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
