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

/// What was found while a model grew, each kind of it once.
struct Discoveries {
  /// The first of each group, as it was found.
  private(set) var all: [Discovery] = []
  /// For each of them the others of its group.
  private(set) var similarCounts: [Int] = []
  private var known: Set<ExplorationFinding.Kind> = []
  private var groups: [FindingGroup: Int] = [:]

  mutating func insert(_ discovery: Discovery) {
    guard known.insert(discovery.kind).inserted else { return }
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

/// What findings have in common that one mistake leads to: the place, and the labels of event and state, whatever
/// their values are.
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
      case .stuck(let pipes), .fullPipes(let pipes): pipes
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
  /// Notes a finding once.
  func discover(
    _ kind: ExplorationFinding.Kind, at path: [String], _ state: StateReference?,
    _ action: ExploredAction?, refusal: (node: String, reason: String)? = nil
  ) {
    discoveries.insert(
      Discovery(kind: kind, path: path, state: state, action: action, refusal: refusal))
  }
}
