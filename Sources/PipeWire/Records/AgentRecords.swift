/// The body of `agent`: a report of what a node's agent runs. The agent sends it at each change and
/// every second, so that a lost report does no harm.
package struct AgentReport: Codable, Hashable, Sendable {
  /// The last process that the agent was asked to start, and its stage.
  package struct Process: Codable, Hashable, Sendable {
    package enum Stage: Codable, Hashable, Sendable {
      case running(pid: Int32)
      case exited(code: Int32)
      case signalled(number: Int32)
      /// The process could not be started.
      case notStarted(reason: String)
    }

    package var incarnation: UInt64
    package var stage: Stage

    package init(incarnation: UInt64, _ stage: Stage) {
      self.incarnation = incarnation
      self.stage = stage
    }

    package var isRunning: Bool { if case .running = stage { true } else { false } }
  }

  package var node: String
  /// Distinguishes this agent from its predecessors. Their processes ended with them.
  package var session: UInt64
  /// The address at which the node listens.
  package var address: String
  /// The name of the agent's host, for display.
  package var host: String?
  /// The last process; `nil` before the first one.
  package var process: Process?
  /// Whether the agent is ending and starts no more processes.
  package var isLeaving: Bool

  package init(
    node: String, session: UInt64, address: String, host: String?, process: Process? = nil,
    isLeaving: Bool = false
  ) {
    self.node = node
    self.session = session
    self.address = address
    self.host = host
    self.process = process
    self.isLeaving = isLeaving
  }

  /// The valid session numbers. JSON has no larger integers.
  package static let sessions: ClosedRange<UInt64> = 1...(1 << 53)
}

/// The body of `launch`: a process for an agent to start.
package struct AgentLaunch: Codable, Hashable, Sendable {
  package var incarnation: UInt64
  package var program: String
  package var arguments: [String]
  /// Variables to add to the agent's own environment.
  package var environment: [String: String]
  /// The directory of the process's journal, which the agent creates; `nil` if it keeps no journal.
  package var directory: String?
  /// The contents of a key file, for the process's standard input.
  package var key: String

  package init(
    incarnation: UInt64, program: String, arguments: [String], environment: [String: String],
    directory: String? = nil, key: String
  ) {
    self.directory = directory
    self.incarnation = incarnation
    self.program = program
    self.arguments = arguments
    self.environment = environment
    self.key = key
  }
}

/// The body of `signal`.
package struct AgentSignal: Codable, Hashable, Sendable {
  package var incarnation: UInt64
  package var number: Int32

  package init(incarnation: UInt64, number: Int32) {
    self.incarnation = incarnation
    self.number = number
  }
}

/// The body of `output`: whole lines, in the order in which they were read.
package struct AgentOutput: Codable, Hashable, Sendable {
  package var incarnation: UInt64
  /// Whether the lines were written to standard error.
  package var isError: Bool
  package var lines: [String]

  package init(incarnation: UInt64, isError: Bool, lines: [String]) {
    self.incarnation = incarnation
    self.isError = isError
    self.lines = lines
  }
}

/// The body of `nodeState`: the orchestrator's view of a node.
package struct AgentNote: Codable, Hashable, Sendable {
  /// The state as displayed: `running`.
  package var state: String
  package var isRunning: Bool

  package init(state: String, isRunning: Bool) {
    self.state = state
    self.isRunning = isRunning
  }
}
