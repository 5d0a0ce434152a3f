/// The body of `agent`: an agent's report about its node's process. The agent sends a report at
/// each change and every second, so that a lost report is soon replaced.
package struct AgentReport: Codable, Hashable, Sendable {
  /// The last process that the agent was asked to start.
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
  /// The number that distinguishes this agent from earlier agents of the node. The processes of
  /// earlier agents have ended.
  package var session: UInt64
  /// The network address at which the node listens.
  package var address: String
  /// The name of the agent's host, for display.
  package var host: String?
  /// The last process that the agent was asked to start; `nil` before the first start.
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

  /// The valid session numbers. Larger integers are not exact in all implementations of JSON.
  package static let sessionRange: ClosedRange<UInt64> = 1...(1 << 53)
}

/// The body of `launch`: a process for an agent to start.
package struct AgentLaunch: Codable, Hashable, Sendable {
  package var incarnation: UInt64
  package var program: String
  package var arguments: [String]
  /// Variables to add to the agent's own environment.
  package var environment: [String: String]
  /// The directory of the process's journal, which the agent creates; `nil` if the node has no journal.
  package var directory: String?
  /// The contents of a key file, which the process reads from its standard input.
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

/// The body of `signal`: a POSIX signal that the agent sends to its node's process.
package struct AgentSignal: Codable, Hashable, Sendable {
  package var incarnation: UInt64
  package var number: Int32

  package init(incarnation: UInt64, number: Int32) {
    self.incarnation = incarnation
    self.number = number
  }
}

/// The body of `output`: complete lines that the node's process has written, in order.
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
package struct AgentNodeState: Codable, Hashable, Sendable {
  /// The state of the node as views show it, such as `running`.
  package var state: String
  package var isRunning: Bool

  package init(state: String, isRunning: Bool) {
    self.state = state
    self.isRunning = isRunning
  }
}
