import PipeMachines
import PipeWire

/// The published states of composites. They are computed from commits and from the states that
/// components report.
///
/// A commit changes the states of all participants at once, before the participants report their
/// own steps. Later reports of these steps and of earlier steps are ignored. So no composite is
/// published in a state in which only some of its participants have applied an event.
package struct CompositeStates {
  /// A function that computes the state of a composite from the states of its components.
  package typealias Projection = ([JSONValue]) throws -> JSONValue

  private struct ComponentState {
    var incarnation: UInt64
    var version: UInt64
    /// The state as JSON.
    var state: [UInt8]
    /// Whether the component is in this state now. `false` if the state is known only from a record
    /// that is older than the coordinator's restart.
    var isCurrent = true
  }

  private struct Composite {
    let name: String
    /// The nodes of the composite. Their states are in the same order in the composite's state.
    let nodes: [String]
    let projection: Projection?
    var version: UInt64 = 0
    var isPublished = false
  }

  private var componentStatesByName: [String: ComponentState] = [:]
  /// The components whose states must be requested again. A restarted process of the component has
  /// reported a state that may be older than a commit, and the report was ignored.
  package private(set) var unconfirmedComponents: Set<String> = []
  private var composites: [Composite]
  private let compositeIndices: [String: Int]
  /// The indices of the composites that contain a node, by the node's name.
  private let indicesByNode: [String: [Int]]

  /// - Parameter projections: The projections that compute the published states of composites, by
  ///   the names of the composites. Without a projection, the state is the tuple of the nodes'
  ///   states.
  package init(
    _ plans: [CompositePlan], projections: [String: Projection] = [:]
  ) {
    composites = plans.map {
      Composite(name: $0.name, nodes: $0.nodes, projection: projections[$0.name])
    }
    indicesByNode = plans.enumerated().reduce(into: [:]) { compositeIndices, plan in
      for node in Set(plan.element.nodes) {
        compositeIndices[node, default: []].append(plan.offset)
      }
    }
    compositeIndices = Dictionary(plans.enumerated().map { ($0.element.name, $0.offset) }) {
      first, _ in first
    }
  }

  /// Applies a state that a component reports.
  /// - Parameter isCommitting: Whether the component takes part in a commit in progress. The report
  ///   may be older than that commit.
  /// - Returns: The composites whose published states have changed.
  package mutating func reported(
    _ component: String, incarnation: UInt64, version: UInt64, state: [UInt8],
    isCommitting: Bool
  ) -> [String] {
    if let last = componentStatesByName[component] {
      if incarnation < last.incarnation { return [] }
      let isOlder = version < last.version && (incarnation == last.incarnation || isCommitting)
      if isOlder, incarnation > last.incarnation {
        unconfirmedComponents.insert(component)
        return []
      }
      if isOlder || version == last.version && state == last.state {
        componentStatesByName[component]?.incarnation = incarnation
        guard !last.isCurrent else { return [] }
        componentStatesByName[component]?.isCurrent = true
        return updateComposites(of: [component])
      }
    }
    componentStatesByName[component] = ComponentState(
      incarnation: incarnation, version: version, state: state)
    return updateComposites(of: [component])
  }

  /// Removes and returns the components whose states can be requested again, because their next
  /// reports will include the commits.
  /// - Parameter isCommitting: Returns whether a component takes part in a commit in progress.
  package mutating func takeUnconfirmed(_ isCommitting: (String) -> Bool) -> Set<String> {
    guard !unconfirmedComponents.isEmpty else { return [] }
    let confirmable = unconfirmedComponents.filter { !isCommitting($0) }
    unconfirmedComponents.subtract(confirmable)
    return confirmable
  }

  /// Restores the steps of commits from before the coordinator's restart. The participants may have
  /// taken further steps since, so a state is published only after its participant has reported it.
  package mutating func restore(_ moves: [String: ParticipantMove]) {
    for (component, move) in moves where indicesByNode[component] != nil {
      componentStatesByName[component] = ComponentState(
        incarnation: 0, version: move.version, state: move.state, isCurrent: false)
    }
  }

  /// Applies the steps of all participants in a commit at once. Ignores steps of instances, because
  /// a keyed node itself reports how many of its instances are in each state.
  /// - Returns: The names of the composites whose published states have changed.
  package mutating func committed(_ moves: [String: ParticipantMove]) -> [String] {
    for (component, move) in moves where indicesByNode[component] != nil {
      let last = componentStatesByName[component]
      // The component may already have reported this step or a later one.
      if let last, last.isCurrent, last.version >= move.version { continue }
      componentStatesByName[component] = ComponentState(
        incarnation: last?.incarnation ?? 0, version: move.version, state: move.state)
    }
    return updateComposites(of: moves.keys)
  }

  /// Updates the versions of the composites that contain these components.
  /// - Returns: The composites whose published states have changed.
  private mutating func updateComposites(of components: some Sequence<String>) -> [String] {
    var changed: [Int] = []
    for component in components {
      for index in indicesByNode[component] ?? [] where !changed.contains(index) {
        // A composite that was already published requires no check, because the states of its nodes
        // remain known.
        guard
          composites[index].isPublished
            || composites[index].nodes.allSatisfy({ componentStatesByName[$0]?.isCurrent == true })
        else { continue }
        changed.append(index)
      }
    }
    return changed.sorted().map { index in
      if composites[index].isPublished { composites[index].version += 1 }
      composites[index].isPublished = true
      return composites[index].name
    }
  }

  /// Returns the number of times that the published state of the composite has changed.
  package func version(of composite: String) -> UInt64 {
    compositeIndices[composite].map { composites[$0].version } ?? 0
  }

  /// Returns the published state of the composite as JSON; `nil` while a component has not reported
  /// its state.
  package func state(of name: String) -> [UInt8]? {
    guard let index = compositeIndices[name] else { return nil }
    let composite = composites[index]
    var states: [[UInt8]] = []
    for node in composite.nodes {
      guard let component = componentStatesByName[node], component.isCurrent else { return nil }
      states.append(component.state)
    }
    if let projection = composite.projection,
      let shown = try? projection(states.map { (try? JSONValue(parsing: $0)) ?? .null })
    {
      return shown.bytes
    }
    var bytes = Array("{".utf8)
    for (node, state) in zip(composite.nodes, states) {
      if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
      bytes += JSONValue.string(node).bytes
      bytes.append(UInt8(ascii: ":"))
      bytes += state
    }
    bytes.append(UInt8(ascii: "}"))
    return bytes
  }
}
