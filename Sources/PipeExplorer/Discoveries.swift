import PipeExploration
import PipeMachines
import PipeTopology

/// Something that was found while a model grew; it is on the step behind a state.
struct Discovery {
  let kind: ExplorationFinding.Kind
  let path: [String]
  /// `nil` where it is at the very start, or at no state.
  let state: StateReference?
  let action: ExploredAction?
  /// The node that refuses it, and why.
  let refusal: (node: String, reason: String)?
}

/// What was found while a model grew, each of it once.
struct Discoveries {
  private(set) var all: [Discovery] = []
  private var told: Set<ExplorationFinding.Kind> = []

  mutating func insert(_ discovery: Discovery) {
    if told.insert(discovery.kind).inserted { all.append(discovery) }
  }
}

extension TopologyModel {
  /// Notes a finding once.
  func discover(
    _ kind: ExplorationFinding.Kind, at path: [String], _ state: StateReference?,
    _ action: ExploredAction?, refusal: (node: String, reason: String)? = nil
  ) {
    discoveries.insert(
      Discovery(kind: kind, path: path, state: state, action: action, refusal: refusal))
  }
}
