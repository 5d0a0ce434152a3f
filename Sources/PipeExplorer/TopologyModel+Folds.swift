import PipeMachines
import PipeTopology
import PipeWire

// States that `fold` takes for one another have to behave alike.
extension TopologyModel {
  /// Asks the same of a configuration that was folded into this one.
  func checkFold(
    _ reply: ProgramOracle.Reply, _ oracle: ProgramOracle, _ mover: ExploredAction.Mover,
    _ configuration: Int
  ) {
    let node = nodes[mover.node]
    guard let other = node.unfolded[configuration], case .answer(let answer) = reply,
      case .answer(let otherAnswer) = oracle.row(node.name, other, [mover.input])[0],
      folded(answer, node) != folded(otherAnswer, node),
      let field = section.fold[node.name]?.sorted(by: { $0.key < $1.key }).first
    else { return }
    let event: JSONValue? =
      switch mover.input {
      case .take(let event), .give(_, let event): event
      case .end: nil
      }
    discover(
      .brokenFold(
        node: node.name, field: field.key, modulo: field.value, event: event,
        states: [node.state(configuration), other.state]),
      at: ["explore", "fold", node.name, field.key], nil, nil)
  }

  private func folded(_ answer: OracleAnswer, _ node: ExploredNode) -> OracleAnswer {
    switch answer {
    case .moved(let next, let sends):
      .moved(configuration: node.folded(next), sends: sends)
    case .refused(let refusal, let next):
      .refused(because: refusal, configuration: node.folded(next))
    case .opened, .undecodable, .unable, .invalid, .projected: answer
    }
  }

  /// The remaining answers of a configuration that has just been found to be folded are compared, too.
  func checkFolds() {
    for (question, _) in answers {
      let node = nodes[question.node]
      guard node.unfolded[question.configuration] != nil, case .machine(let oracle) = node.kind
      else { continue }
      let reply = oracle.row(
        node.name, node.configurations[question.configuration], [question.input])[0]
      let mover = ExploredAction.Mover(
        node: question.node, input: question.input, refusal: .waits)
      checkFold(reply, oracle, mover, question.configuration)
    }
  }
}
