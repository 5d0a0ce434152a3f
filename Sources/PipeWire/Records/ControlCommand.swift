import PipeMachines

/// A client's request to an orchestrator: the body of `command`.
package enum ControlCommand: Codable, Hashable, Sendable {
  /// Return the directory; if `fresh`, with new reports of the nodes.
  case directory(fresh: Bool)
  case describe(node: String)
  /// List the composites, by the processes that coordinate them.
  case composites
  case start(nodes: [String])
  case stop(nodes: [String])
  case restart(nodes: [String])
  case kill(node: String, signal: Int32)
  /// Start nodes, and on request all their dependencies. Answer when the nodes run, or at once.
  case bringUp(nodes: [String], withDependencies: Bool, waits: Bool)
  /// Stop nodes and all their dependents, in order.
  case bringDown(nodes: [String])
  /// Read and check a file, and report what it changes.
  case plan(ChangeRequest)
  /// Apply the change that was planned under this number.
  case apply(plan: UInt64)
  /// Stop in order.
  case down
  /// Kill everything.
  case forceDown
  /// Report how the run ended, once it has ended.
  case outcome
  /// Read lines of logs, up to the size limit of an answer.
  case logs(LogRequest)
  /// Read dead letters with higher numbers from a node's journal, up to the size limit of an answer.
  case deadLetters(node: String, after: UInt64)
  /// Describe a node's journal, with its last records.
  case journal(node: String, limit: Int)
  /// Read instances from a keyed node's journal, up to the size limit of an answer.
  case instances(node: String, InstanceSelection)
}

extension ControlCommand {
  /// Whether a client may send the command again if it does not know whether the orchestrator
  /// received it. The repeated command takes effect only once.
  package var isRepeatable: Bool {
    switch self {
    case .directory, .describe, .composites, .start, .stop, .bringUp, .bringDown, .down, .forceDown,
      .outcome, .logs, .deadLetters, .journal, .instances:
      true
    case .restart, .kill, .plan, .apply: false
    }
  }
}

/// A change of a running topology to a topology file.
package struct ChangeRequest: Codable, Hashable, Sendable {
  /// The file's absolute path.
  package var file: String
  /// The values of `${NAME}` in the file.
  package var variables: [String: String]
  /// Whether the topology keeps its name, even if the file has another name.
  package var keepsName: Bool
  /// Whether the change is only reported, and not kept for `apply`.
  package var isDryRun: Bool
  /// The absolute path of the deployment file; `nil` for the topology's current deployment file, if any.
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

/// An orchestrator's answer: the body of `answer`.
package enum ControlAnswer: Codable, Hashable, Sendable {
  case done
  case directory(TopologyDirectory)
  case description(MachineDescription)
  case composites([ConflictClassPlan])
  /// The command was carried out for these nodes.
  case affected(nodes: [String])
  case planned(PlannedChange)
  /// The errors in a file.
  case invalid([Diagnostic])
  case ended(TopologyOutcome)
  case logs(LogPage)
  case deadLetters(DeadLetterPage)
  case journal(JSONValue)
  case instances(InstancePage)
  case failed(String)
}

/// The changes that a file would make, and the number to apply them.
package struct PlannedChange: Codable, Hashable, Sendable {
  package var number: UInt64
  package var change: TopologyChange
  package var warnings: [Diagnostic]
  /// The reason why the change cannot be applied now; `nil` if it can.
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

/// The outcome of a run: the exit code, see docs/COMMANDS.md, and a reason if there is one to report.
package struct TopologyOutcome: Hashable, Sendable, Codable {
  package var exitCode: Int32
  package var reason: String?
  /// Whether the run ended only because its runtime directory was removed. Clients wait for the next run.
  package var isInterrupted: Bool?

  package init(exitCode: Int32, reason: String? = nil, isInterrupted: Bool? = nil) {
    self.exitCode = exitCode
    self.reason = reason
    self.isInterrupted = isInterrupted
  }

  /// Stopped on request.
  package static let stopped = TopologyOutcome(exitCode: 0)
  /// Killed at the second ^C.
  package static let forced = TopologyOutcome(exitCode: 130, reason: "forced to stop")
}
