import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// In which order a coordinator may learn of steps that its nodes report through pipes of their own.
///
/// It takes each node's steps in their order, and a synchronized event after all that its participants have done
/// before. But where a step of one node causes a step of another in any other way, through a pipe or a node that
/// reports nothing here, the coordinator may take the later step first, and sees a combination of states that never
/// existed. Steps of which neither causes the other exist in either order.
struct ReportedOrder {
  private var edges: [String: Set<Edge>] = [:]

  private struct Edge: Hashable {
    let target: String
    /// Whether the coordinator knows which of the two steps came first.
    let isOrdered: Bool
  }

  /// - Parameter plan: The composites of one coordinator.
  init(_ plan: ConflictClassPlan, in loaded: LoadedTopology) {
    let senders = Set(loaded.pipes.map(\.sender))
    let own = Set(plan.composites.map(\.name))
    let reporting = Set(plan.composites.filter { senders.contains($0.name) }.flatMap(\.nodes))
    let composites = loaded.conflictClasses.flatMap(\.composites)
    func nodes(_ name: String) -> [String] {
      composites.first { $0.name == name }?.nodes ?? [name]
    }
    // What a pipe from one of these composites brings follows from steps that the coordinator has taken.
    for pipe in loaded.pipes where !own.contains(pipe.sender) {
      for sender in nodes(pipe.sender) {
        for receiver in nodes(pipe.receiver) { add(sender, receiver, isOrdered: false) }
      }
    }
    for composite in composites {
      for participants in composite.vectors.map(\.participants) {
        for (first, second) in participants.flatMap({ first in participants.map { (first, $0) } }) {
          add(first, second, isOrdered: reporting.isSuperset(of: [first, second]))
        }
      }
    }
  }

  private mutating func add(_ source: String, _ target: String, isOrdered: Bool) {
    if source != target {
      edges[source, default: []].insert(Edge(target: target, isOrdered: isOrdered))
    }
  }

  /// Two of these nodes, of which the coordinator may learn the second one's step first, though the first one's
  /// has caused it; `nil` where there are none.
  func firstPair(of nodes: [String]) -> (cause: String, effect: String)? {
    for cause in nodes {
      let reached = unordered(from: cause)
      if let effect = nodes.first(where: { $0 != cause && reached.contains($0) }) {
        return (cause, effect)
      }
    }
    return nil
  }

  /// The nodes that can be reached by a way of which some part is not ordered.
  private func unordered(from start: String) -> Set<String> {
    var seen: Set<Edge> = [Edge(target: start, isOrdered: true)]
    var rest = Array(seen)
    while let place = rest.popLast() {
      for edge in edges[place.target] ?? [] {
        let next = Edge(target: edge.target, isOrdered: place.isOrdered && edge.isOrdered)
        if seen.insert(next).inserted { rest.append(next) }
      }
    }
    return Set(seen.lazy.filter { !$0.isOrdered }.map(\.target))
  }
}
