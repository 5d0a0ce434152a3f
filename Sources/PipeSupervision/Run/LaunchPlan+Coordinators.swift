import PipeWire

extension LaunchPlan {
  /// Why another plan cannot follow this one now: a composite would have another process, which would not
  /// have what the present one is still to send, or to be told; `nil` where nothing is.
  /// - Parameter waiting: How many events of a node's pipe are not acknowledged.
  func coordinatorObstacle(
    to next: LaunchPlan, waiting: (_ node: Node, _ pipe: String) -> UInt64
  ) -> String? {
    for coordinator in nodes {
      for composite in coordinator.composites {
        let process = next.process(of: composite.name)
        let left = pipes(of: composite, at: coordinator, movingTo: next[process])
        guard let (sender, pipe) = left.first(where: { waiting($0.sender, $0.pipe) > 0 }) else {
          continue
        }
        return "composite '\(composite.name)' would be coordinated by process '\(process)', and "
          + "not by '\(coordinator.name)' any more, and \(waiting(sender, pipe)) events of pipe '\(pipe)' are "
          + "not taken yet: they would be lost. Apply the file when they are, which 'orchestrator "
          + "describe \(sender.name)' tells, or list '\(coordinator.name)' before '\(process)' in it"
      }
    }
    return nil
  }

  /// The pipes that would be cut off if another process coordinated a composite: those that lead from it
  /// and still are to, and those by which its nodes tell their steps.
  private func pipes(
    of composite: CompositePlan, at coordinator: Node, movingTo next: Node?
  ) -> [(sender: Node, pipe: String)] {
    guard let next, next.name != coordinator.name else { return [] }
    let kept = next.configuration.outs.filter { $0.rule?.composite == composite.name }.map(\.name)
    guard !kept.isEmpty else { return [] }
    let own = coordinator.configuration.outs.map(\.name).filter(kept.contains)
    let told = composite.nodes.compactMap { self[$0] }.flatMap { node in
      node.configuration.outs.filter { $0.steps != nil && $0.receiver == coordinator.name }
        .map { (sender: node, pipe: $0.name) }
    }
    return own.map { (sender: coordinator, pipe: $0) } + told
  }
}
