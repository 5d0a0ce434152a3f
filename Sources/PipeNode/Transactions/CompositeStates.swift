import PipeMachines
import PipeWire

/// The states that composites show, made of the states that components report and of commits.
///
/// A commit shows all its moves at once, before any participant reports its own. Later reports of
/// these moves, or of steps before them, are ignored. So no composite shows a state in which some
/// participants have taken an event and others have not.
package struct CompositeStates {
  /// Computes the state of a composite from the states of its components.
  package typealias Projection = ([JSONValue]) throws -> JSONValue

  private struct ComponentState {
    var incarnation: UInt64
    var version: UInt64
    /// The state as JSON.
    var state: [UInt8]
    /// Whether the component is known to be in this state now, not only to have been in it before a
    /// restart of the coordinator.
    var isCurrent = true
  }

  private struct Composite {
    let name: String
    /// The nodes of the composite, in the order of the parts of its state.
    let nodes: [String]
    let projection: Projection?
    var version: UInt64 = 0
    var isShown = false
  }

  private var componentStates: [String: ComponentState] = [:]
  /// The components whose new processes have reported states that may be older than a commit, and
  /// were therefore ignored.
  package private(set) var unconfirmed: Set<String> = []
  private var composites: [Composite]
  private let compositeIndices: [String: Int]
  /// The indices of the composites that each node is a part of.
  private let indicesByNode: [String: [Int]]

  /// - Parameter projections: The projections that composites show instead of the plain tuple, by
  ///   name.
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
  /// - Parameter isCommitting: Whether a commit is in progress that the component takes part in.
  ///   The report may be older than the commit.
  /// - Returns: The composites that show a new state.
  package mutating func reported(
    _ component: String, incarnation: UInt64, version: UInt64, state: [UInt8],
    isCommitting: Bool
  ) -> [String] {
    if let last = componentStates[component] {
      if incarnation < last.incarnation { return [] }
      let isOlder = version < last.version && (incarnation == last.incarnation || isCommitting)
      if isOlder, incarnation > last.incarnation {
        unconfirmed.insert(component)
        return []
      }
      if isOlder || version == last.version && state == last.state {
        componentStates[component]?.incarnation = incarnation
        guard !last.isCurrent else { return [] }
        componentStates[component]?.isCurrent = true
        return changed([component])
      }
    }
    componentStates[component] = ComponentState(
      incarnation: incarnation, version: version, state: state)
    return changed([component])
  }

  /// Removes and returns the components to ask again: their next reports are not older than a
  /// commit.
  /// - Parameter isCommitting: Whether a commit is in progress that a component takes part in.
  package mutating func takeUnconfirmed(_ isCommitting: (String) -> Bool) -> Set<String> {
    guard !unconfirmed.isEmpty else { return [] }
    let confirmable = unconfirmed.filter { !isCommitting($0) }
    unconfirmed.subtract(confirmable)
    return confirmable
  }

  /// Restores moves from before a restart of the coordinator. The participants may have moved on
  /// since, so nothing is shown of them before they have reported their states.
  package mutating func restore(_ moves: [String: ParticipantMove]) {
    for (component, move) in moves {
      componentStates[component] = ComponentState(
        incarnation: 0, version: move.version, state: move.state, isCurrent: false)
    }
  }

  /// Applies the moves of a commit, all at once.
  /// - Returns: The composites that show a new state.
  package mutating func committed(_ moves: [String: ParticipantMove]) -> [String] {
    for (component, move) in moves {
      let last = componentStates[component]
      // After a restart of the coordinator, the component may have gone further.
      if let last, last.isCurrent, last.version >= move.version { continue }
      componentStates[component] = ComponentState(
        incarnation: last?.incarnation ?? 0, version: move.version, state: move.state)
    }
    return changed(moves.keys)
  }

  private mutating func changed(_ components: some Sequence<String>) -> [String] {
    var changed: [Int] = []
    for component in components {
      for index in indicesByNode[component] ?? [] where !changed.contains(index) {
        // Once all nodes of a composite are known, they stay known.
        guard
          composites[index].isShown
            || composites[index].nodes.allSatisfy({ componentStates[$0]?.isCurrent == true })
        else { continue }
        changed.append(index)
      }
    }
    return changed.sorted().map { index in
      if composites[index].isShown { composites[index].version += 1 }
      composites[index].isShown = true
      return composites[index].name
    }
  }

  /// Returns the number of states that the composite has shown after the first.
  package func version(of composite: String) -> UInt64 {
    compositeIndices[composite].map { composites[$0].version } ?? 0
  }

  /// Returns the state that the composite shows, as JSON; `nil` while a component has not reported
  /// its state.
  package func state(of name: String) -> [UInt8]? {
    guard let index = compositeIndices[name] else { return nil }
    let composite = composites[index]
    var states: [[UInt8]] = []
    for node in composite.nodes {
      guard let component = componentStates[node], component.isCurrent else { return nil }
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
