import CProcess
import Glibc
import PipeMachines

/// The lifecycle of a node under its orchestrator, as a value.
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
    /// Open the outbound pipes that are not open yet.
    case extend
    /// Enter the initial state.
    case start
    /// Take no more input, and wait until the queued events are delivered.
    case drain
    /// Say goodbye to every peer and leave the loop.
    case leave
    /// Log the unexpected input, and ignore it otherwise.
    case ignore
  }

  /// A flag of `stop`: the whole topology stops.
  package static let allStopFlag: UInt8 = 1
  /// The exit code of a node whose disk is full, and the count of its `stopped`: `EX_TEMPFAIL` of
  /// sysexits.h.
  package static let diskFullCode: Int32 = 75

  package private(set) var phase: Phase = .greeting

  // Each turn reads this property: `==` would compare the texts of the phases.
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
  /// The current phase; `nil` is `greeting`.
  package var phase: NodeHandshake.Phase?
  /// The reason why the node cannot run, if a restart cannot help: a damaged journal, for example.
  /// The node then fails with this reason.
  package var failure: String?
  /// The reason why the node is about to end, if a restart may help: a full disk, for example. The
  /// machine's description is then meaningless.
  package var temporaryFailure: String?
  /// The endpoints of the inbox and the feed; `nil` if they are the requested ones.
  package var endpoints: NodeEndpoints?
  /// Whether the running node accepts a `configure` with more outbound pipes; `nil` is no.
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

/// The body of `greet`, which a new orchestrator sends to a node that its predecessor started.
package struct NodeGreeting: Codable, Hashable, Sendable {
  /// The new orchestrator's process.
  package var orchestrator: Int32
  /// Whether the node continues when the orchestrator is killed.
  package var isDetached: Bool
  /// The FIFOs for the node's standard output and standard error. Their former reader is gone.
  package var output: String?
  package var error: String?

  package init(orchestrator: Int32, isDetached: Bool, output: String?, error: String?) {
    self.orchestrator = orchestrator
    self.isDetached = isDetached
    self.output = output
    self.error = error
  }

  /// Redirects the output of this process to the new orchestrator. A stream that cannot be opened
  /// stays unchanged: a node without a log is better than none.
  package func redirectOutput() {
    for (path, standard) in [(output, STDOUT_FILENO), (error, STDERR_FILENO)] {
      guard let path else { continue }
      // Does not wait for a reader, which may have died.
      let descriptor = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
      guard descriptor >= 0 else { continue }
      // A node with a non-blocking stdout would lose lines.
      _ = fcntl(descriptor, F_SETFL, 0)
      dup2(descriptor, standard)
      close(descriptor)
    }
  }

  /// Returns a descriptor that becomes readable when the orchestrator ends, for a node that ends with it.
  package func lifeline() -> Int32? {
    guard !isDetached else { return nil }
    let descriptor = pr_process_descriptor(orchestrator)
    return descriptor < 0 ? nil : descriptor
  }
}

/// The body of `embed`: an embedded coordinator for the process of the carrier node that receives
/// the frame.
package struct EmbeddedNodeRequest: Codable, Hashable, Sendable {
  /// The arguments that the coordinator would have in a process of its own; see ``NodeArguments``.
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
