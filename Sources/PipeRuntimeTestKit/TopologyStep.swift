import PipeRuntime

/// A step that the feeds of a topology report: a state change of a node, or a synchronized event of
/// a composite.
public struct TopologyStep: Hashable, Sendable, CustomStringConvertible {
  enum Kind: Hashable {
    case moved(from: String, to: String)
    case synchronized(String)
  }

  /// The name of the node or of the composite.
  public let node: String
  let kind: Kind

  /// A change of the state of a node, or of a composite with a `CompositeState`. A state that is an
  /// enum has the name of its case. Any other state has the name `state`.
  public static func moved(_ node: String, from state: String, to next: String) -> Self {
    Self(node: node, kind: .moved(from: state, to: next))
  }

  /// A synchronized event that the participants of a composite accept together.
  public static func synchronized(_ event: String, by composite: String) -> Self {
    Self(node: composite, kind: .synchronized(event))
  }

  /// A readable form of the step, such as `door from open to closing` or `eventX by models`.
  public var description: String {
    switch kind {
    case .moved(let state, let next): "\(node) from \(state) to \(next)"
    case .synchronized(let event): "\(event) by \(node)"
    }
  }
}

/// Derives steps from the states that the feeds of a running topology report.
struct StepDetector {
  /// The names of the synchronized events, by composite.
  let synchronizedEventsByComposite: [String: Set<String>]
  private var lastChangesByNode: [String: StateChange] = [:]
  /// The number of states that the feeds did not deliver. Steps to and from these states are
  /// unknown.
  private(set) var missedStateCount: UInt64 = 0

  init(synchronized: [String: Set<String>] = [:]) {
    self.synchronizedEventsByComposite = synchronized
  }

  mutating func add(_ change: StateChange) -> [TopologyStep] {
    let previous = lastChangesByNode.updateValue(change, forKey: change.node)
    guard
      previous.map({ ($0.incarnation, $0.version) < (change.incarnation, change.version) }) ?? true
    else {
      // The feed has repeated the state for a new subscriber, so the node has taken no step.
      return []
    }
    missedStateCount += change.missedCount
    var steps: [TopologyStep] = []
    if change.version > 0,
      synchronizedEventsByComposite[change.node]?.contains(change.cause) == true
    {
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
