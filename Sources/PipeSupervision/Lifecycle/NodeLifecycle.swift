import PipeClient
import PipeSupport
import PipeSystem
import PipeTopology

/// The supervision of one node, as a state machine without side effects. The state machine receives
/// inputs with their instants, and returns actions.
///
/// A node has one process at a time: the next process is spawned only after the previous one has
/// been reaped. An embedded coordinator has no process of its own. The transitions are in
/// `NodeLifecycle+StateMachine.swift`. Adopted processes, processes on other hosts and embedded
/// coordinators are in `NodeLifecycle+NonChildProcesses.swift`.
package struct NodeLifecycle: Sendable {
  /// A monotonic instant on a clock that does not advance while the host is suspended. With another
  /// clock, a node would count as hung when a laptop wakes up.
  package typealias Instant = SuspendingClock.Instant

  package enum State: Hashable, Sendable {
    /// The node was never started.
    case idle
    /// The node is an embedded coordinator, and its carrier node has no process, or a process that
    /// is about to end.
    case awaitingCarrier
    /// The supervisor has sent a greeting to a process of a former supervisor, and waits for the
    /// answer.
    case adopting(until: Instant)
    /// The process is spawned or about to be spawned. The supervisor waits for the hello of the
    /// process.
    case starting(until: Instant)
    /// The process has said hello and received its configuration. The supervisor waits until the
    /// process is ready.
    case configuring(until: Instant)
    /// The process waits for the start command.
    case ready
    case running
    /// The process is on another host and has sent no sign of life. It is unknown whether the
    /// process is still running. `was` is the state before the process was lost.
    indirect case lost(was: State)
    /// The process was asked to stop, or killed. The supervisor waits for the end of the process.
    case stopping(Stopping)
    /// There is no process. The next process is spawned at `until`.
    case backingOff(until: Instant)
    /// There is no process, and no process should run.
    case stopped(StopReason)
    /// There is no process, and the supervisor no longer tries to start a process.
    case failed(reason: String)
  }

  /// The purpose and the progress of stopping a process.
  package struct Stopping: Hashable, Sendable {
    package enum Purpose: Hashable, Sendable {
      case requested
      case restart
      /// The process was killed because of a failure. If `isFinal`, another start would fail in the
      /// same way.
      case failure(reason: String, isFinal: Bool)
    }
    package enum Stage: Hashable, Sendable { case asked, terminated, killed }

    package var purpose: Purpose
    package var stage: Stage
    /// The instant at which the next stage of stopping begins.
    package var deadline: Instant
  }

  /// The reason why a node is stopped.
  package enum StopReason: Hashable, Sendable {
    /// A client or the topology requested the stop.
    case requested
    /// The process ended by itself, and the restart policy does not start it again.
    case completed
  }

  /// A living process of the node that a former supervisor started.
  package struct Survivor: Hashable, Sendable {
    package var pid: Int32
    package var incarnation: Int

    package init(pid: Int32, incarnation: Int) {
      self.pid = pid
      self.incarnation = incarnation
    }
  }

  /// The answer of an adopted process to the greeting.
  package enum Answer: Hashable, Sendable {
    /// The process is configured and waits for the start command.
    case ready
    case running
    /// The process is about to end, because a former supervisor has requested it.
    case ending
    /// The process does not match the launch plan.
    case doesNotMatchPlan(reason: String)
  }

  package enum Input: Hashable, Sendable {
    case start
    /// Adopt a process instead of starting a new process.
    case adopt(Survivor)
    /// A process that is being adopted has answered with its state.
    case answered(Answer)
    case spawned(pid: Int32)
    /// There is no process: the process could not be created, or it could not run its program and
    /// was reaped. If `isDiskFull`, a full disk is the only cause.
    case spawnFailed(reason: String, isDiskFull: Bool = false)
    /// The process has said hello. `failure` is the reason why the process cannot run: its
    /// description contradicts the topology or another node's description, or the process itself
    /// reports a problem. If the other node's description arrives later, this input is repeated,
    /// but not after `ready`.
    case hello(failure: String?)
    /// The process has accepted its configuration and can be started.
    case ready
    /// The process has reported why it is about to end. When the process ends, `reason` becomes the
    /// failure reason of the node.
    case failureReported(reason: String)
    /// The start barrier is open for this node.
    case startBarrierOpened
    /// A sign of life.
    case heartbeat
    /// How long the process has waited for a processor, since the last input of this kind, or since
    /// the supervisor started to wait for the process. Deadlines are postponed by this time.
    case waitedForProcessor(Duration)
    /// The process has certainly ended, for example because it was reaped.
    case exited(ProcessExit)
    /// The process is on another host. The program that started the process there has ended without
    /// reporting whether the process has ended.
    case unattached(reason: String)
    /// The process is on another host. The host answers and reports that the process exists.
    case present
    /// An agent has already run a process with incarnation `by`, which the records of this host do
    /// not contain. The next process must have a higher incarnation.
    case staleIncarnation(by: Int)
    case stopRequested
    case killRequested
    case restartRequested
    /// The carrier node of an embedded coordinator has said hello, or was adopted.
    case carrierStarted
    /// The carrier node is about to stop gracefully. First, it waits until the embedded coordinator
    /// has ended.
    case carrierStopping
    /// The process of the carrier node is gone, or is being killed.
    case carrierEnded
    case tick
  }

  package enum Action: Hashable, Sendable {
    /// Spawn the process, and pass `spawned` or `spawnFailed` to the state machine. After
    /// `spawned`, `spawnFailed` may still follow.
    case spawn(incarnation: Int)
    /// Ask a process that is being adopted for its identity and state.
    case greet
    case sendConfigure
    case sendStart
    case sendStop
    case kill(Signal)
    case report(NodeReport)
    /// Find out whether a process on another host is still running. Pass `present` to the state
    /// machine or, if the process has certainly ended, `exited`.
    case checkLiveness
    /// The supervisor has given up the node.
    case nodeFailed(reason: String)
    /// The node has no process, and no process should run.
    case nodeStopped
  }

  package private(set) var restart: RestartPolicy
  package private(set) var timeouts: Timeouts
  /// The signal that stops a process that does not read frames yet, or does not answer the stop
  /// command.
  package private(set) var stopSignal: Signal
  package internal(set) var state: State = .idle
  /// The incarnation of the current process or, if there is none, of the last process.
  package internal(set) var incarnation: Int
  /// The highest incarnation that was ever used. An adopted process may have a lower incarnation.
  var highestIncarnation: Int
  /// The number of starts in this run.
  package internal(set) var starts = 0
  /// The process id, from `spawned` until the process has ended.
  package internal(set) var pid: Int32?
  /// The instant at which the process was spawned.
  package internal(set) var startedAt: Instant?
  /// The number of restarts after a failure, counted from the last manual start of the node.
  package internal(set) var restarts = 0

  /// The reason why the last stop or restart of the node was not graceful; `nil` if it was
  /// graceful.
  package internal(set) var stopFailure: String?

  /// The instant from which the heartbeat timeout counts, usually the last sign of life of the
  /// process; `nil` before the first sign of life.
  var lastSeen: Instant?
  /// The instants of the restarts that count against the restart limit.
  var recentRestarts: [Instant] = []
  /// The number of consecutive pauses because of a full disk.
  var pausesForSpace = 0
  /// The reason that the last process has reported for its end; `nil` without such a report.
  var reportedFailure: String?
  /// The generator of random numbers for the jitter of the pauses before restarts.
  var generator: SplitMix64
  /// Whether any process of this node has ever said hello. If not, the program is perhaps not a
  /// node program.
  var hasSaidHello = false
  /// The signal to send as soon as `spawned` arrives, because a stop was requested before
  /// `spawned`.
  var pendingSignal: Signal?
  /// Whether the node is embedded in the process of a carrier node.
  package private(set) var isEmbedded: Bool
  /// Whether the carrier node has a process that can start this embedded node.
  var hasCarrier = false
  /// Whether the node runs on another host. If so, the silence of its process does not prove that
  /// the process has ended.
  package private(set) var isRemote: Bool

  /// - Parameters:
  ///   - incarnation: The highest incarnation in former runs; 0 if the node was never started.
  ///   - seed: The seed for the jitter of the pauses before restarts.
  ///   - isEmbedded: Whether the node is embedded in the process of a carrier node.
  ///   - isRemote: Whether the node runs on another host.
  package init(
    restart: RestartPolicy = RestartPolicy(), timeouts: Timeouts = Timeouts(),
    stopSignal: Signal = .terminate, incarnation: Int = 0, seed: UInt64 = 0,
    isEmbedded: Bool = false, isRemote: Bool = false
  ) {
    self.isRemote = isRemote
    self.isEmbedded = isEmbedded
    self.restart = restart
    self.timeouts = timeouts
    self.stopSignal = stopSignal
    self.incarnation = incarnation
    highestIncarnation = incarnation
    generator = SplitMix64(seed: seed)
  }

  /// Applies the settings of the node from a changed topology file. If the current state contains a
  /// deadline, the deadline stays the same.
  /// - Parameter isReplaced: Whether the node's next process has another program or configuration
  ///   than its last process.
  package mutating func applySettings(
    restart: RestartPolicy, timeouts: Timeouts, stopSignal: Signal = .terminate, isReplaced: Bool,
    isEmbedded: Bool = false, isRemote: Bool = false
  ) {
    self.isRemote = isRemote
    self.isEmbedded = isEmbedded
    self.restart = restart
    self.timeouts = timeouts
    self.stopSignal = stopSignal
    if isReplaced { hasSaidHello = false }
  }
}

extension NodeLifecycle.State {
  /// Whether there is no process, and no process will be spawned without a request.
  package var hasEnded: Bool {
    switch self {
    case .idle, .stopped, .failed: true
    case .awaitingCarrier, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping,
      .backingOff:
      false
    }
  }

  /// Whether there is a process, or a process is being created.
  package var hasProcess: Bool {
    switch self {
    case .adopting, .starting, .configuring, .ready, .running, .lost, .stopping: true
    case .idle, .awaitingCarrier, .backingOff, .stopped, .failed: false
    }
  }

  /// Whether the process is being adopted.
  package var isAdopting: Bool {
    switch self {
    case .adopting: true
    case .lost(let was): was.isAdopting
    case .idle, .awaitingCarrier, .starting, .configuring, .ready, .running, .stopping, .backingOff,
      .stopped, .failed:
      false
    }
  }

  /// Whether the process can carry embedded coordinators.
  package var canCarryEmbeddedNodes: Bool {
    switch self {
    case .configuring, .ready, .running: true
    case .lost(let was): was.canCarryEmbeddedNodes
    case .idle, .awaitingCarrier, .adopting, .starting, .stopping, .backingOff, .stopped, .failed:
      false
    }
  }

  /// Whether the node was never started, or was stopped or is being stopped on request.
  package var isStoppedOnRequest: Bool {
    switch self {
    case .idle, .stopped(.requested): true
    case .stopping(let stopping): stopping.purpose == .requested
    case .awaitingCarrier, .adopting, .starting, .configuring, .ready, .running, .lost, .backingOff,
      .stopped(.completed), .failed:
      false
    }
  }

  /// The state in one or two words for tables: `running`, `backing off`.
  package var name: String {
    switch self {
    case .idle: "idle"
    case .awaitingCarrier: "waiting"
    case .adopting: "adopting"
    case .starting: "starting"
    case .configuring: "configuring"
    case .ready: "ready"
    case .running: "running"
    case .lost: "lost"
    case .stopping: "stopping"
    case .backingOff: "backing off"
    case .stopped(.requested): "stopped"
    case .stopped(.completed): "completed"
    case .failed: "failed"
    }
  }
}

extension NodeLifecycle {
  /// The instant at which the next `tick` must be handled; `nil` if there is no deadline.
  package var nextDeadline: Instant? {
    switch state {
    case .adopting(let until), .starting(let until), .configuring(let until),
      .backingOff(let until):
      until
    case .ready, .running: lastSeen.map { $0 + timeouts.heartbeat }
    case .stopping(let stopping): stopping.deadline
    case .idle, .awaitingCarrier, .lost, .stopped, .failed: nil
    }
  }

  /// Whether the supervisor is waiting for the process to start, to stop, or to send an overdue
  /// heartbeat.
  package func isAwaited(at now: Instant) -> Bool {
    switch state {
    case .adopting, .starting, .configuring, .stopping: true
    case .ready, .running: lastSeen.map { now - $0 > timeouts.heartbeat / 4 } ?? false
    case .idle, .awaitingCarrier, .lost, .backingOff, .stopped, .failed: false
    }
  }

  /// Postpones the deadline of the process by the time that the process has spent waiting for a
  /// processor.
  mutating func postponeDeadline(by duration: Duration, at now: Instant) -> [Action] {
    switch state {
    case .adopting(let until): state = .adopting(until: until + duration)
    case .starting(let until): state = .starting(until: until + duration)
    case .configuring(let until): state = .configuring(until: until + duration)
    case .ready, .running: lastSeen = lastSeen.map { min(now, $0 + duration) }
    case .stopping(var stopping):
      stopping.deadline += duration
      state = .stopping(stopping)
    case .idle, .awaitingCarrier, .lost, .backingOff, .stopped, .failed: break
    }
    return []
  }

  /// Acts on the deadline if it has passed. Precondition: all messages that have arrived were
  /// processed, so that no sign of life is missed.
  mutating func tick(at now: Instant) -> [Action] {
    guard let deadline = nextDeadline, now >= deadline else { return [] }
    switch state {
    case .adopting where isRemote:
      return lose(because: "\(MissedDeadline.answer(within: timeouts.start))", at: now)
    case .adopting:
      return replace(because: "\(MissedDeadline.answer(within: timeouts.start))", at: now)
    case .starting:
      let reason =
        "\(MissedDeadline.connection(within: timeouts.start)); "
        + (isEmbedded
          ? "the carrier node may have been built with a version of PipeRuntime without embedded "
            + "coordinators: rebuild its program, or remove 'within'"
          : isRemote
            ? "read the log of the node; check that the host answers, and that the program is a "
              + "node program"
            : "check the log of the node, and that the program is a node program")
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .configuring:
      let reason =
        reportedFailure
        ?? "\(MissedDeadline.readiness(within: timeouts.start)); check the log of the node"
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .ready, .running:
      if now - deadline > timeouts.heartbeat / 2 {
        // The tick is very late, so the supervisor itself was suspended, and could not receive
        // signs of life.
        lastSeen = now
        return []
      }
      if isRemote { return lose(because: silenceReason, at: now) }
      let reason = "hung: \(silenceReason)"
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .stopping(let stopping):
      return escalate(stopping, at: now)
    case .backingOff:
      return spawn(at: now)
    case .idle, .awaitingCarrier, .lost, .stopped, .failed:
      return []
    }
  }

  private mutating func escalate(_ stopping: Stopping, at now: Instant) -> [Action] {
    switch stopping.stage {
    case .asked:
      beginStopping(for: stopping.purpose, .terminated, at: now)
      return pid == nil ? [] : [.kill(stopSignal)]
    case .terminated:
      let reason = "\(MissedDeadline.stop(within: timeouts.stop))"
      stopFailure = reason
      return killing(for: stopping.purpose, reason: reason, at: now)
    case .killed:
      beginStopping(for: stopping.purpose, .killed, at: now)
      guard let pid else { return [] }
      return [.kill(.kill), .report(isRemote ? .outOfReach(pid: pid) : .unkillable(pid: pid))]
    }
  }

  var silenceReason: String { "\(MissedDeadline.heartbeat(within: timeouts.heartbeat))" }
}
