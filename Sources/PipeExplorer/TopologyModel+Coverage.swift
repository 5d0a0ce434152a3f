import PipeMachines
import PipeTopology
import PipeWire

// What nodes would do with events that they were never given.
extension TopologyModel {
  /// Questions that are asked about one event of one node at most.
  private static let questionLimit = 512
  /// Values of an event that are tried in one state at most.
  private static let valueLimit = 8

  /// Whether a node takes an event in one of the states that the search has met.
  ///
  /// An event that a reducer ignores in all of them is no event that is missing.
  func takesSomewhere(_ node: ExploredNode, _ event: String) -> Bool {
    guard case .machine(let oracle) = node.kind, let fields = node.opening?.events[event] else {
      return false
    }
    // What is tried here is no part of what was searched.
    var values = values
    let inputs = values.events(EventPattern(event), of: node.name, fields)
      .prefix(Self.valueLimit).map { OracleInput.take(event: $0) }
    guard !inputs.isEmpty else { return false }
    for configuration in node.configurations.prefix(Self.questionLimit / inputs.count) {
      for reply in oracle.row(node.name, configuration, inputs) {
        switch reply {
        case .answer(.moved), .answer(.unable), .impure: return true
        case .answer: continue
        // Nobody has asked for a step that traps or hangs.
        case .trouble: return false
        }
      }
    }
    return false
  }
}
