import PipeMachines
import PipeTopology
import PipeWire

/// A process that a pod is for.
package struct ManifestProcess: Hashable, Sendable {
  /// What it is, as the label `app.kubernetes.io/component` has it.
  package enum Component: String, Hashable, Sendable {
    case node, coordinator, orchestrator
  }

  /// The name by which the topology has it.
  package let name: String
  package let component: Component
  /// That of its objects.
  package let object: String
  /// Where it is to run; `nil` for anywhere in the cluster.
  let place: DeploymentPlace?
  /// Whether it records something that is to outlive its pod.
  let hasJournal: Bool

  /// Those of a topology that agents start, in the order of the file: nodes, coordinators. What lives within another
  /// process is none, and monitors live in the orchestrator's pod.
  static func all(
    of topology: Topology, _ classes: [ConflictClassPlan], in deployment: Deployment,
    _ names: ClusterNames
  ) -> [ManifestProcess] {
    let nodes = topology.nodes.map { node in
      let lodges = classes.contains { $0.host == node.name && $0.durability != .volatile }
      return ManifestProcess(
        name: node.name, component: .node, object: names.object(of: node.name),
        place: node.place.flatMap(deployment.place),
        hasJournal: lodges
          || node.constant == nil && topology.durability(of: node.name) != .volatile)
    }
    let coordinators = classes.filter { $0.host == nil }.map {
      ManifestProcess(
        name: $0.name, component: .coordinator, object: names.object(of: $0.name), place: nil,
        hasJournal: $0.durability != .volatile)
    }
    return nodes + coordinators
  }
}
