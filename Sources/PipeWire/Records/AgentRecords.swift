/// The body of `agent`: what the agent of a node runs. It is said anew at each change, and every second besides, so that
/// one that is lost does no harm.
package struct AgentReport: Codable, Hashable, Sendable {
  /// The last process that it was told to start, and what became of that.
  package struct Process: Codable, Hashable, Sendable {
    package enum Stage: Codable, Hashable, Sendable {
      case running(pid: Int32)
      case exited(code: Int32)
      case signalled(number: Int32)
      /// There never was one.
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
  /// Tells this agent from those before it: whatever they ran ended with them.
  package var session: UInt64
  /// Where its node is to listen.
  package var address: String
  /// The name of its host, to be shown.
  package var host: String?
  /// `nil` before the first one.
  package var process: Process?
  /// Whether it ends, and starts nothing more.
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

  /// Sessions are below this: JSON has no integers beyond.
  package static let sessions: ClosedRange<UInt64> = 1...(1 << 53)
}

/// The body of `launch`: the process that an agent is to start.
package struct AgentLaunch: Codable, Hashable, Sendable {
  package var incarnation: UInt64
  package var program: String
  package var arguments: [String]
  /// What is added to the agent's own environment.
  package var environment: [String: String]
  /// The directory of its journal, which is to be there; `nil` where it keeps none.
  package var directory: String?
  /// What a key file holds, for the process's standard input.
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
  /// Whether they were written to standard error.
  package var isError: Bool
  package var lines: [String]

  package init(incarnation: UInt64, isError: Bool, lines: [String]) {
    self.incarnation = incarnation
    self.isError = isError
    self.lines = lines
  }
}

/// The body of `noted`: what the orchestrator makes of a node.
package struct AgentNote: Codable, Hashable, Sendable {
  /// As it is shown: `running`.
  package var state: String
  package var isRunning: Bool

  package init(state: String, isRunning: Bool) {
    self.state = state
    self.isRunning = isRunning
  }
}
