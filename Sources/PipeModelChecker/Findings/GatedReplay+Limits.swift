import PipeSupervision
import PipeTopology

// What cannot be replayed on real processes.
extension GatedReplay {
  /// Returns the first part of a scenario that cannot be replayed on real processes; `nil` if there
  /// is none.
  package static func unsupportedPart(of scenario: Scenario, in loaded: LoadedTopology) -> Failure?
  {
    if let node = loaded.topology.nodes.first(where: { $0.key != nil }) {
      return Failure(
        path: ["topology"],
        description: "node '\(node.name)' has a 'key', and nodes with a 'key' cannot be gated; use "
          + "--in-process")
    }
    let composites = Set(loaded.topology.composites.map(\.name))
    if let pipe = loaded.pipes.first(where: {
      composites.contains($0.receiver) && $0.onRefused == .postpone
    }) {
      return Failure(
        path: ["topology"],
        description: "pipe '\(pipe.name)' postpones the events of composite '\(pipe.receiver)', "
          + "and such events cannot be gated; use --in-process")
    }
    for (index, step) in scenario.steps.enumerated() {
      let path = ["steps", String(index)]
      switch step.action {
      case .sends(let node, _, _):
        return Failure(
          path: path + ["sends"],
          description: "node '\(node)' is listed under 'any', and a running node sends events only "
            + "by its own steps; use --in-process")
      case .crash(let node):
        guard let loss = loss(inCrashOf: node, in: loaded.topology, loaded.pipes) else { continue }
        return Failure(
          path: path + ["crash"],
          description:
            "\(loss) has 'durability: none', so a crash of node '\(node)' loses its state "
            + "or events; set another durability, or remove the step")
      case .takes, .ends, .fires: continue
      }
    }
    return nil
  }

  /// Returns the node or the pipe that loses its state or events in a crash of a node; `nil` if there
  /// is none.
  private static func loss(
    inCrashOf node: String, in topology: Topology, _ pipes: [PipeSpecification]
  ) -> String? {
    if topology.durability(of: node) == .volatile { return "node '\(node)'" }
    return pipes.first {
      [$0.sender, $0.receiver].contains(node) && topology.durability(of: $0) == .volatile
    }.map { "pipe '\($0.name)'" }
  }
}
