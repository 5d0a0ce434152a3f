import PipeMachines

/// The files of a recorded run.
package enum RunDirectory {
  /// The name of the file that describes the run: a ``RunDescription`` as JSON.
  package static let descriptionFile = "run.json"
  /// The name of the copy of the topology file.
  package static let topologyFile = "topology.yaml"
  /// The end of the name of a step log, after the node and its incarnation.
  package static let stepLogSuffix = ".steps.jsonl"
}

/// The description of a recorded run.
package struct RunDescription: Codable, Hashable, Sendable {
  /// The version of the format of the directory.
  package static let currentVersion = 1

  package var version: Int
  /// The name of the topology.
  package var topology: String
  /// The absolute path of the topology file.
  package var file: String
  /// The time at which the recording began. Unit: nanoseconds since 1970.
  package var started: Int64

  package init(topology: String, file: String, started: Int64) {
    version = Self.currentVersion
    self.topology = topology
    self.file = file
    self.started = started
  }
}

/// A line of a node's step log.
package struct StepLogLine: Codable, Hashable, Sendable {
  package var node: String
  package var incarnation: UInt64
  /// The node's version after the line.
  package var version: UInt64
  /// The number of steps that the process has taken so far.
  package var index: UInt64
  /// Unit: nanoseconds since 1970.
  package var time: Int64?
  /// The state in which the process begins; `nil` in all lines but the first.
  package var begins: JSONValue?
  /// The state before the step.
  package var from: JSONValue?
  /// The event of the step, or the refused event; `nil` for a timer's step.
  package var event: JSONValue?
  /// The state after the step, or the state that refused the event.
  package var state: JSONValue?
  package var entry: NodeStep.Entry?
  /// The reason why the node has refused the event; `nil` if the line is no refusal.
  package var refused: String?
  /// Whether the node tries the refused event again.
  package var postponed: Bool?
  /// The event that the state has ignored; `nil` for any other line.
  package var ignored: JSONValue?
  package var source: NodeStep.PipedEvent?
  package var request: NodeStep.RequestOrigin?
  package var transaction: TransactionID?
  package var cause: String?
  package var sent: [NodeStep.PipedEvent]?
  /// Whether the process has ended gracefully after this line.
  package var ended: Bool?
}

extension StepLogLine {
  /// Makes the first line of a log.
  package init(
    node: String, incarnation: UInt64, version: UInt64, begins state: JSONValue
  ) {
    self.node = node
    self.incarnation = incarnation
    self.version = version
    index = 0
    begins = state
  }

  /// Whether the line is a step of the node.
  package var isStep: Bool { state != nil && refused == nil }
}
