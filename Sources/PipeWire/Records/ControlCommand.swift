import PipeMachines

/// What a client asks of an orchestrator: the body of `command`.
package enum ControlCommand: Codable, Hashable, Sendable {
  /// The directory; with what the nodes tell now where `fresh`.
  case directory(fresh: Bool)
  case describe(node: String)
  /// The composites, by the processes that coordinate them.
  case composites
  case start(nodes: [String])
  case stop(nodes: [String])
  case restart(nodes: [String])
  case kill(node: String, signal: Int32)
  /// Start nodes, and where wanted all that they depend on; answer when they run, or at once.
  case bringUp(nodes: [String], withDependencies: Bool, waits: Bool)
  /// Stop nodes and all that depend on them, in order.
  case bringDown(nodes: [String])
  /// Read and check a file, and tell what it changes.
  case plan(ChangeRequest)
  /// Go over to the file that was planned under this number.
  case apply(plan: UInt64)
  /// Stop in order.
  case down
  /// Kill everything.
  case forceDown
  /// How the run has ended, once it has.
  case outcome
  /// Lines of logs, as many as an answer may have.
  case logs(LogRequest)
  /// Dead letters from a node's journal, those with higher numbers than this, as many as an answer may have.
  case letters(node: String, after: UInt64)
  /// What a node's journal holds, with its last records.
  case journal(node: String, limit: Int)
}

extension ControlCommand {
  /// Whether it may be given again where nobody knows whether it was heard: what it asks for is then done once.
  package var isRepeatable: Bool {
    switch self {
    case .directory, .describe, .composites, .start, .stop, .bringUp, .bringDown, .down, .forceDown,
      .outcome, .logs, .letters, .journal:
      true
    case .restart, .kill, .plan, .apply: false
    }
  }
}

/// Which file a topology that runs is to go over to.
package struct ChangeRequest: Codable, Hashable, Sendable {
  /// The file's absolute path.
  package var file: String
  /// What `${NAME}` in the file stands for.
  package var variables: [String: String]
  /// Whether the topology keeps its name, whatever the file's is.
  package var keepsName: Bool
  /// Whether it is to be told only, and not kept to be applied.
  package var isDryRun: Bool
  /// The absolute path of the deployment file; `nil` for that by which the topology runs already, if any.
  package var deployment: String?

  package init(
    file: String, variables: [String: String], keepsName: Bool, isDryRun: Bool,
    deployment: String? = nil
  ) {
    self.deployment = deployment
    self.file = file
    self.variables = variables
    self.keepsName = keepsName
    self.isDryRun = isDryRun
  }
}

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
  case journal(JSONValue)
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

/// How a run ends: the exit code of DESIGN.md §6, and the reason where there is one to tell.
package struct TopologyOutcome: Hashable, Sendable, Codable {
  package var exitCode: Int32
  package var reason: String?
  /// Whether the run ended only because its runtime directory was removed: clients wait for the next one.
  package var isInterrupted: Bool?

  package init(exitCode: Int32, reason: String? = nil, isInterrupted: Bool? = nil) {
    self.exitCode = exitCode
    self.reason = reason
    self.isInterrupted = isInterrupted
  }

  /// Stopped as asked.
  package static let stopped = TopologyOutcome(exitCode: 0)
  /// Killed at the second ^C.
  package static let forced = TopologyOutcome(exitCode: 130, reason: "forced to stop")
}
