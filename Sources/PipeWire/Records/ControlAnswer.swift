import PipeMachines

/// What an orchestrator answers: the body of `answer`.
package enum ControlAnswer: Codable, Hashable, Sendable {
  case done
  case directory(TopologyDirectory)
  case description(MachineDescription)
  case composites([ConflictClassPlan])
  /// Done, with these nodes.
  case steered(nodes: [String])
  case planned(PlannedChange)
  /// What is wrong with a file.
  case invalid([Diagnostic])
  case ended(TopologyOutcome)
  case logs(LogPage)
  case letters(LetterPage)
  case failed(String)
}

/// What a file would change, and what it is applied by.
package struct PlannedChange: Codable, Hashable, Sendable {
  package var number: UInt64
  package var change: TopologyChange
  package var warnings: [Diagnostic]
  /// Why it cannot be applied now; `nil` where it can.
  package var obstacle: String?

  package init(
    number: UInt64, change: TopologyChange, warnings: [Diagnostic], obstacle: String? = nil
  ) {
    self.number = number
    self.change = change
    self.warnings = warnings
    self.obstacle = obstacle
  }
}
