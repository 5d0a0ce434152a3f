import PipeMachines

/// What an orchestrator answers: the body of `answer`.
package enum ControlAnswer: Codable, Hashable, Sendable {
  case done
  case directory(TopologyDirectory)
  case description(MachineDescription)
  case composites([ConflictClassPlan])
  case ended(TopologyOutcome)
  case failed(String)
}
