import PipeMachines
import PipeTopology

/// A finding made while the model grew, at the step after a state.
struct Discovery {
  let kind: ExplorationFinding.Kind
  let path: [String]
  /// The state; `nil` if the finding belongs to the start, or to no state.
  let state: StateReference?
  let action: ExploredAction?
  /// The refusing node with its reason.
  let refusal: (node: String, reason: String)?
}

/// The findings made while the model grew, each kind once.
struct Discoveries {
  /// The first finding of each group, in the order of discovery.
  private(set) var all: [Discovery] = []
  /// For each group, the number of further findings.
  private(set) var similarCounts: [Int] = []
  private var recordedKinds: Set<ExplorationFinding.Kind> = []
  private var groups: [FindingGroup: Int] = [:]

  mutating func insert(_ discovery: Discovery) {
    guard recordedKinds.insert(discovery.kind).inserted else { return }
    let group = FindingGroup(discovery.kind)
    if let first = groups[group] {
      similarCounts[first] += 1
    } else {
      groups[group] = all.count
      all.append(discovery)
      similarCounts.append(0)
    }
  }
}

/// The common part of findings with the same cause: the location, and the labels of event and state
/// without their values.
struct FindingGroup: Hashable {
  private let code: ExplorationFinding.Code
  private let names: [String]

  init(_ kind: ExplorationFinding.Kind) {
    code = ExplorationFinding(kind, at: []).code
    names =
      switch kind {
      case .deadLetter(let pipe, let node, let event, let state, _),
        .fatalRefusal(let pipe, let node, let event, let state, _):
        [pipe, node, event.caseName ?? "", state.caseName ?? ""]
      case .crash(let node, let event, let state, let how):
        [node, event?.caseName ?? "", state.caseName ?? "", how]
      case .impure(let node, let event, let state, _):
        [node, event.caseName ?? "", state.caseName ?? ""]
      case .brokenFold(let node, let field, _, let event, _): [node, field, event?.caseName ?? ""]
      case .neverEnabled(let owner, let event): [owner, event]
      case .unreachable(let node, let state): [node, state]
      case .violated(let property, _): [property]
      case .badAnswer(let program, let problem): [program, problem]
      case .lateAnswer(let program, let node, _): [program, node]
      case .stuck(let names), .fullPipes(let names): names
      case .deadlock: []
      }
  }

  /// - Parameter states: The states of the nodes.
  init(_ kind: ExplorationFinding.Kind, states: [JSONValue]) {
    let group = FindingGroup(kind)
    code = group.code
    names = group.names + states.map { $0.caseName ?? "" }
  }
}

extension TopologyModel {
  /// Records a finding, unless it is already recorded.
  func discover(
    _ kind: ExplorationFinding.Kind, at path: [String], _ state: StateReference?,
    _ action: ExploredAction?, refusal: (node: String, reason: String)? = nil
  ) {
    discoveries.insert(
      Discovery(kind: kind, path: path, state: state, action: action, refusal: refusal))
  }
}
