import PipeMachines
import PipeTopology
import PipeWire

// States that the file names, as the programs read them.
extension TopologyModel {
  /// Checks that each state with values that the file names can be a state of its node: one that its type does not
  /// hold is never reached, and a property of it would say nothing.
  ///
  /// `check` judges the types that it knows; of all others a program knows which values they have.
  /// - Throws: `TopologyErrors`, with the places in the file.
  func checkConditions() throws {
    var errors: [Diagnostic] = []
    for (index, end) in section.end.enumerated() {
      let path = ["explore", "end"]
      let isListed = section.end.count > 1
      check(end, owner: "'explore', 'end'", at: isListed ? path + [String(index)] : path, &errors)
    }
    for property in section.properties {
      check(
        property.states, owner: "property '\(property.name)'",
        at: ["explore", "properties", property.name, property.demand.rawValue], &errors)
    }
    guard errors.isEmpty else { throw TopologyErrors(errors) }
  }

  private func check(
    _ combination: StateCombination, owner: String, at path: [String], _ errors: inout [Diagnostic]
  ) {
    for (name, condition) in combination.states.sorted(by: { $0.key < $1.key }) {
      // A label says nothing of values, and some fields of a struct are no state.
      guard let place = node(named: name), condition.state.string == nil,
        nodes[place].description?.stateFields == nil,
        let problem = problem(with: condition.state, of: nodes[place])
      else { continue }
      errors.append(
        loaded.source.diagnostic(
          .typeMismatch, at: path + [name],
          "\(owner): node '\(name)' has no state '\(condition)': \(problem)"))
    }
  }

  /// What its program says of a state that it cannot read; `nil` where it can.
  ///
  /// It is asked for the end of an effect that there is not, which is refused in any state that can be read.
  private func problem(with state: JSONValue, of node: ExploredNode) -> String? {
    guard case .machine(let oracle) = node.kind, let first = node.opening?.configuration else {
      return nil
    }
    func answer(in configuration: OracleConfiguration) -> ProgramOracle.Reply {
      oracle.row(node.name, configuration, [.end(effect: "")])[0]
    }
    guard case .answer(.invalid(let problem)) = answer(in: OracleConfiguration(state: state)),
      case .answer(.invalid(let usual)) = answer(in: first), problem != usual
    else { return nil }
    return problem
  }
}
