import PipeMachines
import PipeWire

/// Stands in for a content that could not be made, so that the node can say why.
final class UnableContent: CannotRun {
  let problem: String?
  let description = MachineDescription(
    machine: "", initial: .null, states: [], events: [], alphabet: [], outputs: [], outPorts: [],
    inPorts: [])

  init(problem: String?) { self.problem = problem }

  func start() {}
  func stop() {}
  func fill(_ status: inout NodeStatus) {}
}
