import PipeMachines

/// The files of a recorded run.
package enum RunDirectory {
  /// The name of the file that describes the run: a ``RunDescription`` as JSON.
  package static let descriptionFile = "run.json"
  /// The name of the copy of the topology file.
  package static let topologyFile = "topology.yaml"
  /// The suffix of the file name of a step log. The node's name and incarnation precede the suffix.
  package static let stepLogSuffix = ".steps.jsonl"
}

/// The description of a recorded run.
package struct RunDescription: Codable, Hashable, Sendable {
  /// The current version of the format of run directories.
  package static let currentVersion = 2

  package var version: Int
  /// The name of the topology.
  package var topology: String
  /// The absolute path of the topology file.
  package var file: String
  /// The time at which the recording began. Unit: nanoseconds since 1970.
  package var started: Int64
  /// The fingerprint of each program at the start of the recording, by the program's path.
  package var programs: [String: String]?

  package init(topology: String, file: String, started: Int64, programs: [String: String]) {
    version = Self.currentVersion
    self.topology = topology
    self.file = file
    self.started = started
    self.programs = programs
  }
}

/// The first line of a node's step log.
package struct StepLogHeader: Codable, Hashable, Sendable {
  package var node: String
  package var incarnation: UInt64
  /// The node's version when the process begins.
  package var version: UInt64
  /// The state in which the process begins.
  package var begins: JSONValue
  /// The hash of the state ``begins``, with 16 hexadecimal digits.
  package var hash: String
  /// The function that hashes the states of the log.
  package var hashing: StateHash
  /// The schema version of the machine.
  package var schema: Int
  /// The time at which the process begins. Unit: nanoseconds since 1970.
  package var time: Int64
}

/// A line of a node's step log after the first line. Ranges are positions in the text of the line.
package struct StepLogLine: Sendable {
  package enum Kind: Sendable {
    /// A step of the node.
    case step
    /// An event that the node has refused or postponed.
    case refused
    /// An event that the state has ignored.
    case ignored
    /// The events that were sent on entry into the initial state.
    case initialSends
    /// The graceful end of the process.
    case ended
  }

  /// The identity of an event in a pipe.
  package struct PipedEvent: Sendable {
    /// The pipe's name in the line.
    package var pipe: Range<Int>
    package var stream: UInt64
    package var number: UInt64
    /// The event in the line; empty for the event that a step has received.
    package var event: Range<Int>
  }

  package var kind = Kind.step
  /// The number of the line in its file, from 1.
  package var number: Int
  /// The position of the line in its file. Unit: bytes.
  package var offset: Int
  /// The number of steps that the process has taken, including this step.
  package var step: UInt64 = 0
  /// The node's version after the line.
  package var version: UInt64
  /// The time of the step or event in the line. Unit: nanoseconds since 1970.
  package var time: Int64
  /// The event; `nil` for the step of a timer.
  package var event: Range<Int>?
  /// The whole state after the step; `nil` in most lines.
  package var state: Range<Int>?
  /// The hash of the state after the step; `nil` if the state could not be encoded.
  package var hash: UInt64?
  /// The reason for a refusal.
  package var reason: Range<Int>?
  package var source: PipedEvent?
  package var request: RequestKey?
  package var transaction: TransactionID?
  package var cause: Range<Int>?
  /// The version of the step that started the effect; `nil` if no effect produced the event.
  package var effect: UInt64?
  package var isPostponed = false
  /// Whether the step has entered no state.
  package var isInternal = false
  /// The events that the step has sent, in order.
  package var sent: [PipedEvent] = []

  init(number: Int, offset: Int, version: UInt64, time: Int64) {
    self.number = number
    self.offset = offset
    self.version = version
    self.time = time
  }
}

/// The last line that `orchestrator replay --page` writes about a recorded run, for the inspector.
package struct RunPageSummary: Codable, Hashable, Sendable {
  /// A finding about the logs or the programs of the run.
  package struct Note: Codable, Hashable, Sendable {
    /// The node; empty if the note is about a program.
    package var node: String
    package var text: String

    package init(node: String, text: String) {
      self.node = node
      self.text = text
    }
  }

  /// A composite with its nodes.
  package struct Composite: Codable, Hashable, Sendable {
    package var name: String
    package var nodes: [String]

    package init(name: String, nodes: [String]) {
      self.name = name
      self.nodes = nodes
    }
  }

  /// The directory of the run.
  package var run: String
  /// The time at which the recording began. Unit: nanoseconds since 1970.
  package var started: Int64
  /// The time of the last line of the logs. Unit: nanoseconds since 1970.
  package var ended: Int64
  package var notes: [Note]
  package var composites: [Composite]
  /// The nodes and pipes, with the last status of each node in the run.
  package var directory: TopologyDirectory

  package init(
    run: String, started: Int64, ended: Int64, notes: [Note], composites: [Composite],
    directory: TopologyDirectory
  ) {
    self.run = run
    self.started = started
    self.ended = ended
    self.notes = notes
    self.composites = composites
    self.directory = directory
  }
}
