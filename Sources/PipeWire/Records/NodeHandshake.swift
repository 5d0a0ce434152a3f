import CProcess
import Glibc
import PipeMachines

/// The life of a node as its orchestrator steers it, as a value.
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
    /// Connect the pipes and say READY.
    case connect
    /// Open the pipes that lead from here and are not open yet.
    case extend
    /// Enter the initial state.
    case start
    /// Take no more input, and wait until what is queued is delivered.
    case drain
    /// Say goodbye to every peer and leave the loop.
    case leave
    /// Out of place: logged and passed over.
    case ignore
  }

  /// Set in `stop` where the whole topology stops.
  package static let allStopFlag: UInt8 = 1
  /// The exit code of a node whose disk is full, and the count of its `stopped`: `EX_TEMPFAIL` of sysexits.h.
  package static let diskFullCode: Int32 = 75

  package private(set) var phase: Phase = .greeting

  // Each turn asks for it: `==` would compare the texts of the phases.
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

/// The body of `hello`: who a process is.
package struct NodeHello: Codable, Hashable, Sendable {
  package var node: String
  package var pid: Int32
  package var incarnation: UInt64
  package var description: MachineDescription
  /// Where it stands; `nil` is `greeting`.
  package var phase: NodeHandshake.Phase?
  /// Why it cannot run, where no other start can help: its journal is damaged, say. The node is then
  /// failed, with this as the reason.
  package var problem: String?
  /// Why it is about to end, where another start may go better: its disk is full, say. What it says of
  /// its machine means nothing then.
  package var setback: String?
  /// Where its inbox and its feed are bound; `nil` where they are where they were to be.
  package var endpoints: NodeEndpoints?
  /// Whether it takes a `configure` with more pipes that lead from it while it runs; `nil` is no.
  package var opensPipes: Bool?

  package init(
    node: String, pid: Int32, incarnation: UInt64, description: MachineDescription,
    phase: NodeHandshake.Phase? = nil, problem: String? = nil, setback: String? = nil,
    endpoints: NodeEndpoints? = nil, opensPipes: Bool? = nil
  ) {
    self.node = node
    self.pid = pid
    self.incarnation = incarnation
    self.description = description
    self.phase = phase
    self.problem = problem
    self.setback = setback
    self.endpoints = endpoints
    self.opensPipes = opensPipes
  }
}

/// The body of `greet`: a new orchestrator to a node that a former one started.
package struct NodeGreeting: Codable, Hashable, Sendable {
  /// The new orchestrator's process.
  package var orchestrator: Int32
  /// Whether the node goes on when that is killed.
  package var isDetached: Bool
  /// A FIFO each for what the node writes from now on: whoever read it before is gone.
  package var output: String?
  package var error: String?

  package init(orchestrator: Int32, isDetached: Bool, output: String?, error: String?) {
    self.orchestrator = orchestrator
    self.isDetached = isDetached
    self.output = output
    self.error = error
  }

  /// Lets this process write to the new orchestrator. What cannot be opened stays as it is: a node
  /// goes on without a log rather than not at all.
  package func redirectOutput() {
    for (path, standard) in [(output, STDOUT_FILENO), (error, STDERR_FILENO)] {
      guard let path else { continue }
      // Without waiting for a reader, who may have died meanwhile.
      let descriptor = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
      guard descriptor >= 0 else { continue }
      // A node that finds its stdout non-blocking would lose lines.
      _ = fcntl(descriptor, F_SETFL, 0)
      dup2(descriptor, standard)
      close(descriptor)
    }
  }

  /// A descriptor that is readable once the orchestrator has ended, for a node that ends with it.
  package func lifeline() -> Int32? {
    guard !isDetached else { return nil }
    let descriptor = pr_process_descriptor(orchestrator)
    return descriptor < 0 ? nil : descriptor
  }
}

/// The body of `lodge`: another node, that is to live in the process of the one that it is sent to.
package struct NodeLodging: Codable, Hashable, Sendable {
  /// The arguments that a process of its own would have; see ``NodeArguments``.
  package var arguments: [String]
  /// Its record, which the process is to lock for it; see ``ProcessRecord``.
  /// `nil` where the process is on another host than its orchestrator, which then has no record that it could see.
  package var record: String?
  /// What its key file holds, where the process cannot read that; see `KeyFile`.
  package var key: String?

  package init(arguments: [String], record: String?, key: String? = nil) {
    self.key = key
    self.arguments = arguments
    self.record = record
  }
}

/// The body of `turnedAway`: why a node cannot live there.
package struct NodeTurnedAway: Codable, Hashable, Sendable {
  package var node: String
  package var incarnation: UInt64
  package var reason: String

  package init(node: String, incarnation: UInt64, reason: String) {
    self.node = node
    self.incarnation = incarnation
    self.reason = reason
  }
}
