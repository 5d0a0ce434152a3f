import PipeMachines

/// A client's request to an orchestrator: the body of `command`.
package enum ControlCommand: Codable, Hashable, Sendable {
  /// Return the directory of nodes and pipes. With `fresh`, ask all nodes for new reports first.
  case directory(fresh: Bool)
  case describe(node: String)
  /// List the composites, grouped by coordinator.
  case composites
  case start(nodes: [String])
  case stop(nodes: [String])
  case restart(nodes: [String])
  case kill(node: String, signal: Int32)
  /// Start nodes and, with `withDependencies`, all their dependencies. With `waits`, answer when
  /// the nodes run; otherwise answer at once.
  case bringUp(nodes: [String], withDependencies: Bool, waits: Bool)
  /// Stop nodes and all nodes that depend on them. Each node stops before its dependencies.
  case bringDown(nodes: [String])
  /// Read and check a topology file, and report the changes to the running topology.
  case plan(ChangeRequest)
  /// Apply the planned change with this number.
  case apply(plan: UInt64)
  /// Stop the topology gracefully. Each node stops before its dependencies.
  case down
  /// Kill all processes of the topology.
  case forceDown
  /// Wait until the topology has ended, and report the outcome.
  case outcome
  /// Read log lines, up to the size limit of an answer.
  case logs(LogRequest)
  /// Read a node's dead letters with numbers above `after`, up to the size limit of an answer.
  case deadLetters(node: String, after: UInt64)
  /// Describe a node's journal, with at most `limit` of its last records.
  case journal(node: String, limit: Int)
  /// Read instances from a keyed node's journal, up to the size limit of an answer.
  case instances(node: String, InstanceSelection)
  /// Write a backup of the topology into a file, given by its absolute path.
  case backup(file: String)
}

extension ControlCommand {
  /// Whether a client can safely send the command again if no answer has arrived. The repeated
  /// command has no further effect.
  package var isRepeatable: Bool {
    switch self {
    case .directory, .describe, .composites, .start, .stop, .bringUp, .bringDown, .down, .forceDown,
      .outcome, .logs, .deadLetters, .journal, .instances:
      true
    case .restart, .kill, .plan, .apply, .backup: false
    }
  }
}

/// A request to change a running topology to match a topology file.
package struct ChangeRequest: Codable, Hashable, Sendable {
  /// The file's absolute path.
  package var file: String
  /// The values of the file's variables, `${NAME}`, by name.
  package var variables: [String: String]
  /// Whether the running topology keeps its name, even if the file contains another name.
  package var keepsName: Bool
  /// Whether to only report the change. Otherwise, the orchestrator also keeps the change for
  /// `apply`.
  package var isDryRun: Bool
  /// The absolute path of the deployment file; `nil` for the topology's current deployment file, if any.
  package var deployment: String?
  /// The nodes and pipes whose states and events may be lost if the new programs cannot read them.
  package var acceptedLosses: [String]?
  /// The node after which the upgrades of programs pause; `nil` if the upgrades do not pause.
  package var pauseNode: String?

  package init(
    file: String, variables: [String: String], keepsName: Bool, isDryRun: Bool,
    deployment: String? = nil, acceptedLosses: [String]? = nil, pauseNode: String? = nil
  ) {
    self.pauseNode = pauseNode
    self.acceptedLosses = acceptedLosses
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
  /// The nodes on which the command has acted.
  case affected(nodes: [String])
  case planned(PlannedChange)
  /// The errors in a topology file.
  case invalid([Diagnostic])
  case ended(TopologyOutcome)
  case logs(LogPage)
  case deadLetters(DeadLetterPage)
  case journal(JSONValue)
  case instances(InstancePage)
  case backedUp(BackupReport)
  case failed(String)
}

/// The changes that a topology file would make, and the number with which a client applies them.
package struct PlannedChange: Codable, Hashable, Sendable {
  package var number: UInt64
  package var change: TopologyChange
  package var warnings: [Diagnostic]
  /// The reason why the change cannot be applied now; `nil` if it can be applied.
  package var reasonNotApplicable: String?
  /// The states and events that the new programs cannot read, at most ``failureLimit``; `nil` if
  /// there are none.
  package var failures: [MigrationFailure]?
  /// The names that change in the journals; `nil` if none do.
  package var renames: NameChanges?
  /// The removed nodes whose journals have unfinished work; `nil` if there are none.
  package var unfinished: [UnfinishedWork]?

  /// The unfinished work in the journal of a node that the file no longer contains.
  package struct UnfinishedWork: Codable, Hashable, Sendable {
    package var node: String
    /// The work in words, such as `2 events in the outbox`.
    package var work: [String]

    package init(_ node: String, _ work: [String]) {
      self.node = node
      self.work = work
    }
  }

  private enum CodingKeys: String, CodingKey {
    case number, change, warnings, failures, renames, unfinished
    case reasonNotApplicable = "obstacle"
  }

  /// The maximum number of elements of ``failures``.
  package static let failureLimit = 1_000

  package init(
    number: UInt64, change: TopologyChange, warnings: [Diagnostic],
    reasonNotApplicable: String? = nil,
    failures: [MigrationFailure]? = nil, renames: NameChanges? = nil,
    unfinished: [UnfinishedWork]? = nil
  ) {
    self.renames = renames
    self.unfinished = unfinished
    self.failures = failures
    self.number = number
    self.change = change
    self.warnings = warnings
    self.reasonNotApplicable = reasonNotApplicable
  }
}

/// The outcome of a topology's run: the exit code (see docs/COMMANDS.md) and an optional reason.
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

  /// The outcome after a requested stop.
  package static let stopped = TopologyOutcome(exitCode: 0)
  /// The outcome after a second ^C, which kills all nodes.
  package static let forced = TopologyOutcome(exitCode: 130, reason: "forced to stop")
}
