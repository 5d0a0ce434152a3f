import PipeMachines
import PipeWire

/// Stands in for a content that could not be made, so that the node can say why.
final class UnableContent: NodeContent {
  /// Why it cannot run, where no other start can help.
  let problem: String?
  let description = MachineDescription(machine: "")

  init(problem: String?) { self.problem = problem }

  func start() {}
  func stop() {}
  func fill(_ status: inout NodeStatus) {}
}
