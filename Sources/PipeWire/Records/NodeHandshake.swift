import CProcess
import Glibc
import PipeMachines

/// The state machine of a node's lifecycle under its orchestrator.
///
/// ```
/// greeting --configure--> configured --start--> running --stop--> draining --drained--> ended
/// ```
package struct NodeHandshake {
  package enum Phase: String, Codable, Hashable, CaseIterable, Sendable {
    case greeting, configured, running, draining, ended
  }
  package enum Input: Hashable, CaseIterable { case configure, start, stop, drained, drainTimeout }

  package enum Action: Hashable {
    /// Connect the pipes and send `ready`.
    case connect
    /// Open the outbound pipes that the new configuration adds.
    case extend
    /// Enter the initial state.
    case start
    /// Accept no more input, and wait until the queued events are delivered.
    case drain
    /// Send `goodbye` to every peer and end the loop.
    case leave
    /// Log the unexpected input and do nothing else.
    case ignore
  }

  /// The flag of `stop` when the whole topology stops.
  package static let allStopFlag: UInt8 = 1
  /// The exit code of a node whose disk is full: `EX_TEMPFAIL` of sysexits.h. The `count` of the
  /// node's `stopped` frame has the same value.
  package static let diskFullCode: Int32 = 75

  package private(set) var phase: Phase = .greeting

  // A `switch`, because each turn reads this property and `==` would compare the phases as text.
  package var isRunning: Bool {
    switch phase {
    case .running: true
    case .greeting, .configured, .draining, .ended: false
    }
  }

  package init() {}

  package mutating func handle(_ input: Input) -> Action {
    switch (phase, input) {
    case (.greeting, .configure):
      phase = .configured
      return .connect
    case (.configured, .start):
      phase = .running
      return .start
    case (.running, .configure):
      return .extend
    case (.running, .stop):
      phase = .draining
      return .drain
    case (.greeting, .stop), (.configured, .stop), (.draining, .drained),
      (.draining, .drainTimeout):
      phase = .ended
      return .leave
    case (.greeting, .start), (.greeting, .drained), (.greeting, .drainTimeout),
      (.configured, .configure), (.configured, .drained), (.configured, .drainTimeout),
      (.running, .start), (.running, .drained), (.running, .drainTimeout),
      (.draining, .configure), (.draining, .start), (.draining, .stop),
      (.ended, .configure), (.ended, .start), (.ended, .stop), (.ended, .drained),
      (.ended, .drainTimeout):
      return .ignore
    }
  }
}

/// The body of `hello`: the identity of a process.
package struct NodeHello: Codable, Hashable, Sendable {
  package var node: String
  package var pid: Int32
  package var incarnation: UInt64
  package var description: MachineDescription
  /// The current phase; `nil` means `greeting`.
  package var phase: NodeHandshake.Phase?
  /// The reason why the node cannot run, such as a damaged journal. Set only if a restart cannot
  /// help; the orchestrator then marks the node as failed.
  package var failure: String?
  /// The reason why the node is about to exit, such as a full disk. Set only if a restart may help;
  /// the machine's description is then meaningless.
  package var temporaryFailure: String?
  /// The endpoints of the inbox and the feed; `nil` if the node uses the requested endpoints.
  package var endpoints: NodeEndpoints?
  /// Whether the node, while it runs, accepts a `configure` with more outbound pipes; `nil` means no.
  package var opensPipes: Bool?

  package init(
    node: String, pid: Int32, incarnation: UInt64, description: MachineDescription,
    phase: NodeHandshake.Phase? = nil, failure: String? = nil, temporaryFailure: String? = nil,
    endpoints: NodeEndpoints? = nil, opensPipes: Bool? = nil
  ) {
    self.node = node
    self.pid = pid
    self.incarnation = incarnation
    self.description = description
    self.phase = phase
    self.failure = failure
    self.temporaryFailure = temporaryFailure
    self.endpoints = endpoints
    self.opensPipes = opensPipes
  }
}

/// The body of `greet`. An orchestrator sends this frame to a node that it adopts from an earlier
/// orchestrator.
package struct NodeGreeting: Codable, Hashable, Sendable {
  /// The process id of the new orchestrator.
  package var orchestrator: Int32
  /// Whether the node continues when the orchestrator is killed.
  package var isDetached: Bool
  /// The path of the FIFO for the node's standard output. The earlier orchestrator no longer reads
  /// the FIFO that the node has used so far.
  package var output: String?
  /// The path of the FIFO for the node's standard error.
  package var error: String?

  package init(orchestrator: Int32, isDetached: Bool, output: String?, error: String?) {
    self.orchestrator = orchestrator
    self.isDetached = isDetached
    self.output = output
    self.error = error
  }

  /// Redirects the output of this process to the new orchestrator. A stream whose FIFO cannot be
  /// opened stays unchanged, since a node without a log is better than no node.
  package func redirectOutput() {
    for (path, standard) in [(output, STDOUT_FILENO), (error, STDERR_FILENO)] {
      guard let path else { continue }
      // A blocking `open` would wait until the orchestrator opens the FIFO, and the orchestrator
      // may have ended.
      let descriptor = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
      guard descriptor >= 0 else { continue }
      // With a non-blocking standard output, the node would lose lines.
      _ = fcntl(descriptor, F_SETFL, 0)
      dup2(descriptor, standard)
      close(descriptor)
    }
  }

  /// Returns a descriptor that becomes readable when the orchestrator ends. Returns `nil` if the
  /// node is detached, so that it continues without the orchestrator, or if the orchestrator's
  /// process cannot be opened.
  package func lifelineDescriptor() -> Int32? {
    guard !isDetached else { return nil }
    let descriptor = pr_process_descriptor(orchestrator)
    return descriptor < 0 ? nil : descriptor
  }
}

/// The body of `embed`: a request to a carrier node to run an embedded coordinator in its process.
package struct EmbeddedNodeRequest: Codable, Hashable, Sendable {
  /// The arguments with which the coordinator would start as its own process; see ``NodeArguments``.
  package var arguments: [String]
  /// The path of the coordinator's record, which the carrier node locks; see ``ProcessRecord``.
  /// `nil` if the carrier node is on another host than the orchestrator and cannot see the record.
  package var record: String?
  /// The contents of the key file, if the process cannot read the file; see `KeyFile`.
  package var key: String?

  package init(arguments: [String], record: String?, key: String? = nil) {
    self.key = key
    self.arguments = arguments
    self.record = record
  }
}

/// The body of `rejected`: the reason why the carrier node rejects an embedded coordinator.
package struct EmbeddingRejection: Codable, Hashable, Sendable {
  package var node: String
  package var incarnation: UInt64
  package var reason: String

  package init(node: String, incarnation: UInt64, reason: String) {
    self.node = node
    self.incarnation = incarnation
    self.reason = reason
  }
}
