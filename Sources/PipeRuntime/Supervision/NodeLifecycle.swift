/// The supervision of one node as a pure state machine: inputs with their instants go in, actions
/// come out.
///
/// One process at a time: the next one is spawned only after the one before has been reaped. The
/// transitions are in `NodeLifecycle+StateMachine.swift`, the timeouts in
/// `NodeLifecycle+Deadlines.swift`.
package struct NodeLifecycle: Sendable {
  /// A monotonic instant that stands still while the machine is suspended, so that no node is found
  /// hung when a laptop wakes up.
  package typealias Instant = SuspendingClock.Instant

  package enum State: Hashable, Sendable {
    /// Never started.
    case idle
    /// Spawned, or about to be; its hello is awaited.
    case starting(until: Instant)
    /// It said hello and was sent its configuration; ready is awaited.
    case configuring(until: Instant)
    /// It waits for the word to go.
    case ready
    case running
    /// It was told to end, or killed; its end is awaited.
    case stopping(Stopping)
    /// No process; the next one is spawned then.
    case backingOff(until: Instant)
    /// No process, and none wanted.
    case stopped(Ending)
    /// No process, and starting another is given up.
    case failed(reason: String)
  }

  /// Why and how far a process is being ended.
  package struct Stopping: Hashable, Sendable {
    package enum Purpose: Hashable, Sendable {
      case requested
      case restart
      /// Killed for a failure; `isFinal` says that another start cannot help.
      case failure(reason: String, isFinal: Bool)
    }
    package enum Stage: Hashable, Sendable { case asked, terminated, killed }

    package var purpose: Purpose
    package var stage: Stage
    /// When the next stage begins.
    package var until: Instant
  }

  /// How a node came to be stopped.
  package enum Ending: Hashable, Sendable {
    /// Somebody asked for it.
    case requested
    /// It ended by itself and its policy does not start it again.
    case completed
  }

  package enum Input: Hashable, Sendable {
    case start
    case spawned(pid: Int32)
    case spawnFailed(reason: String)
    /// Its hello; `problem` says how its description contradicts the topology. A contradiction that
    /// shows only beside the other nodes' descriptions may be handed in again, before `ready`.
    case hello(problem: String?)
    /// Its configuration is accepted; it can be started.
    case ready
    /// It says why it is about to end; used as the reason when it does.
    case complained(reason: String)
    /// The start barrier is open for this node.
    case go
    /// Any sign of life.
    case heartbeat
    /// Its process was reaped.
    case exited(ProcessExit)
    case stopRequested
    case killRequested
    case restartRequested
    case tick
  }

  package enum Action: Hashable, Sendable {
    /// Spawn the process and hand in `spawned` or `spawnFailed`.
    case spawn(incarnation: Int)
    case sendConfigure
    case sendStart
    case sendStop
    case kill(Signal)
    case report(NodeReport)
    /// The node is given up.
    case nodeFailed(reason: String)
    /// The node has no process and wants none.
    case nodeStopped
  }

  package let restart: RestartPolicy
  package let timeouts: Timeouts
  package internal(set) var state: State = .idle
  /// The count of starts.
  package internal(set) var incarnation: Int
  /// The process, from `spawned` until it is reaped.
  package internal(set) var pid: Int32?
  /// When the process was spawned.
  package internal(set) var startedAt: Instant?
  /// The restarts after a failure since the node was last started by hand.
  package internal(set) var restarts = 0

  var lastSeen: Instant?
  /// The restarts that count against the limit.
  var recentRestarts: [Instant] = []
  var complaint: String?
  /// Whether any process of this node ever said hello: if none did, it is likely no node program.
  var hasSaidHello = false
  /// Whether the process was asked to end before `spawned` came in.
  var pendingSignal: Signal?

  /// - Parameter incarnation: The count of starts so far.
  package init(
    restart: RestartPolicy = RestartPolicy(), timeouts: Timeouts = Timeouts(),
    incarnation: Int = 0
  ) {
    self.restart = restart
    self.timeouts = timeouts
    self.incarnation = incarnation
  }
}

extension NodeLifecycle.State {
  /// Whether there is no process and none will be spawned without being asked for.
  package var hasEnded: Bool {
    switch self {
    case .idle, .stopped, .failed: true
    case .starting, .configuring, .ready, .running, .stopping, .backingOff: false
    }
  }

  /// One word for tables: `running`, `backing off`.
  package var name: String {
    switch self {
    case .idle: "idle"
    case .starting: "starting"
    case .configuring: "configuring"
    case .ready: "ready"
    case .running: "running"
    case .stopping: "stopping"
    case .backingOff: "backing off"
    case .stopped(.requested): "stopped"
    case .stopped(.completed): "completed"
    case .failed: "failed"
    }
  }
}
