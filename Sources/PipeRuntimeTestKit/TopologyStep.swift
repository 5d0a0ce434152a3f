import PipeRuntime

/// What the feeds of a topology tell: a node goes from one state to the next, or the nodes of a composite
/// take an event together.
public struct TopologyStep: Hashable, Sendable, CustomStringConvertible {
  enum Kind: Hashable {
    case moved(from: String, to: String)
    case synchronized(String)
  }

  /// The node or the composite.
  public let node: String
  let kind: Kind

  /// A step of a node, or of a composite that is shown as a `CompositeState`, by the names of the states'
  /// cases. A state that is no case is called `state`.
  public static func moved(_ node: String, from state: String, to next: String) -> Self {
    Self(node: node, kind: .moved(from: state, to: next))
  }

  /// An event that the composite's participants have taken together.
  public static func synchronized(_ event: String, by composite: String) -> Self {
    Self(node: composite, kind: .synchronized(event))
  }

  /// `door from open to closing`, `eventX by models`.
  public var description: String {
    switch kind {
    case .moved(let state, let next): "\(node) from \(state) to \(next)"
    case .synchronized(let event): "\(event) by \(node)"
    }
  }
}

/// Makes steps of the states that the feeds of one run of a topology tell.
struct FeedSteps {
  /// The synchronized events of each composite.
  let synchronized: [String: Set<String>]
  private var last: [String: StateChange] = [:]
  /// States that were not seen, so that steps with them were not either.
  private(set) var missed: UInt64 = 0

  init(synchronized: [String: Set<String>] = [:]) { self.synchronized = synchronized }

  mutating func take(_ change: StateChange) -> [TopologyStep] {
    let before = last.updateValue(change, forKey: change.node)
    guard
      before.map({ ($0.incarnation, $0.version) < (change.incarnation, change.version) }) ?? true
    else {
      // Told once more, to a new subscriber.
      return []
    }
    missed += change.missed
    var steps: [TopologyStep] = []
    if change.version > 0, synchronized[change.node]?.contains(change.cause) == true {
      steps.append(.synchronized(change.cause, by: change.node))
    }
    if let before, before.incarnation == change.incarnation, before.version + 1 == change.version {
      steps.append(
        .moved(
          change.node, from: before.state.caseName ?? "state",
          to: change.state.caseName ?? "state"))
    }
    return steps
  }
}
