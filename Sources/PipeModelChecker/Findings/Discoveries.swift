import PipeMachines
import PipeTopology
import PipeWire

/// A finding from the evaluation of a step during the search.
struct Discovery {
  let kind: ExplorationFinding.Kind
  let path: [String]
  /// The state before the step; `nil` if the finding concerns the start of a node, or no particular
  /// state.
  let state: StateReference?
  let action: ExploredAction?
  /// The node that refused the event, and the reason; `nil` if no node refused an event.
  let refusal: (node: String, reason: String)?
}

/// The findings from the evaluation of steps during the search. Equal findings are recorded once.
struct Discoveries {
  /// The first finding of each group, in the order of discovery.
  private(set) var all: [Discovery] = []
  /// The number of further findings in each group, in the order of `all`.
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

/// The values that similar findings have in common: nodes and pipes, and the names of the event and
/// the state. The findings of a group probably have the same cause.
struct FindingGroup: Hashable {
  private let code: ExplorationFinding.Code
  private let names: [String]

  init(_ kind: ExplorationFinding.Kind) {
    code = ExplorationFinding(kind, at: []).code
    names =
      switch kind {
      case .deadLetter(let pipe, let node, let event, let state, _),
        .fatalRefusal(let pipe, let node, let event, let state, _),
        .ignoredEvent(let pipe, let node, let event, let state, _):
        [pipe, Self.nodeName(ofInstance: node), event.caseName ?? "", state.caseName ?? ""]
      case .crash(let node, let event, let state, let exitDescription):
        [
          Self.nodeName(ofInstance: node), event?.caseName ?? "", state.caseName ?? "",
          exitDescription,
        ]
      case .impure(let node, let event, let state, _):
        [Self.nodeName(ofInstance: node), event.caseName ?? "", state.caseName ?? ""]
      case .brokenFold(let node, let field, _, let event, _):
        [Self.nodeName(ofInstance: node), field, event?.caseName ?? ""]
      case .neverEnabled(let owner, let event): [owner, event]
      case .unreachable(let node, let state): [node, state]
      case .violated(let property, _): [property]
      case .badAnswer(let program, let problem): [program, problem]
      case .lateAnswer(let program, let node, _): [program, node]
      case .stuck(let names), .fullPipes(let names): names
      case .deadlock: []
      }
  }

  /// Returns the node of an instance, so that the findings for all instances of a node are in one
  /// group. Returns other names unchanged.
  private static func nodeName(ofInstance name: String) -> String {
    InstanceName(name)?.node ?? name
  }

  /// Creates a group of similar deadlocks or stuck states.
  /// - Parameter states: The states of all nodes. Only the names of these states count.
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
    // If `isMirroring` is set, the step is the image of another step under a renaming of keys. The
    // finding is recorded for that other step.
    guard !isMirroring else { return }
    discoveries.insert(
      Discovery(kind: kind, path: path, state: state, action: action, refusal: refusal))
  }
}
