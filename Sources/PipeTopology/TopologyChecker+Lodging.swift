import PipeMachines
import PipeSupport
import PipeWire

/// Where composites are coordinated within a node.
extension TopologyChecker {
  /// Checks that a node can take in the coordinator of a class of composites.
  mutating func checkHost(of plan: ConflictClassPlan) {
    let named = plan.composites.compactMap { topology.composite($0.name) }
      .filter { $0.within != nil }
    guard let first = named.first, let host = first.within,
      let node = topology.node(host), node.constant == nil
    else { return }
    for composite in named.dropFirst() where composite.within != host {
      report(
        .badHost, at: ["composites", composite.name, "within"],
        "composite '\(composite.name)' shares participants with '\(first.name)', and so is "
          + "coordinated in one place with it, which would be within '\(host)' and "
          + "'\(composite.within ?? "")'; name one node for both")
    }
    guard let problem = obstacle(to: node, of: plan) else { return }
    report(
      .badHost, at: ["composites", first.name, "within"], "composite '\(first.name)': \(problem)")
  }

  private func obstacle(to node: NodeSpecification, of plan: ConflictClassPlan) -> String? {
    guard plan.participants.contains(node.name) else {
      return "node '\(node.name)' takes no part in its events"
        + Suggestion.among(plan.participants, like: node.name, verb: "these do:")
    }
    guard let program = topology.program(of: node) else { return nil }
    if program != plan.program {
      return "program '\(plan.program)' coordinates it, and node '\(node.name)' is one of "
        + "'\(program)'; give it 'program: \(program)', or leave 'within' out"
    }
    if node.restart.mode == .never {
      return "node '\(node.name)' is never started again ('restart: { policy: never }'), and all "
        + "others would wait for ever for the coordinator in its process; give it another policy, or "
        + "name another node"
    }
    guard descriptions.programs[program]?.takesLodgers == false else { return nil }
    return "program '\(program)' was built with a version of PipeRuntime that coordinates nothing "
      + "within a node; build it anew, or leave 'within' out"
  }
}
