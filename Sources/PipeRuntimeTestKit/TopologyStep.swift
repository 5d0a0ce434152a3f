import PipeRuntime

/// A step that the feeds of a topology report: a node moves from one state to the next, or the
/// nodes of a composite take an event together.
public struct TopologyStep: Hashable, Sendable, CustomStringConvertible {
  enum Kind: Hashable {
    case moved(from: String, to: String)
    case synchronized(String)
  }

  /// The node or the composite.
  public let node: String
  let kind: Kind

  /// A step of a node, or of a composite with a `CompositeState`. The states are named by their
  /// cases. The name of a state that is not a case is `state`.
  public static func moved(_ node: String, from state: String, to next: String) -> Self {
    Self(node: node, kind: .moved(from: state, to: next))
  }

  /// An event that the composite's participants have taken together.
  public static func synchronized(_ event: String, by composite: String) -> Self {
    Self(node: composite, kind: .synchronized(event))
  }

  /// The step as text: `door from open to closing`, `eventX by models`.
  public var description: String {
    switch kind {
    case .moved(let state, let next): "\(node) from \(state) to \(next)"
    case .synchronized(let event): "\(event) by \(node)"
    }
  }
}

/// Derives steps from the states that the feeds of one run of a topology report.
struct StepDetector {
  /// The synchronized events of each composite.
  let synchronized: [String: Set<String>]
  private var last: [String: StateChange] = [:]
  /// The number of states that the feeds have missed. Steps to and from these states are unknown.
  private(set) var missed: UInt64 = 0

  init(synchronized: [String: Set<String>] = [:]) { self.synchronized = synchronized }

  mutating func add(_ change: StateChange) -> [TopologyStep] {
    let previous = last.updateValue(change, forKey: change.node)
    guard
      previous.map({ ($0.incarnation, $0.version) < (change.incarnation, change.version) }) ?? true
    else {
      // The feed repeats this state for a new subscriber.
      return []
    }
    missed += change.missed
    var steps: [TopologyStep] = []
    if change.version > 0, synchronized[change.node]?.contains(change.cause) == true {
      steps.append(.synchronized(change.cause, by: change.node))
    }
    if let previous, previous.incarnation == change.incarnation,
      previous.version + 1 == change.version
    {
      steps.append(
        .moved(
          change.node, from: previous.state.caseName ?? "state",
          to: change.state.caseName ?? "state"))
    }
    return steps
  }
}
