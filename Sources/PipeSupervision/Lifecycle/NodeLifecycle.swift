import PipeClient
import PipeSupport
import PipeSystem
import PipeTopology

/// The supervision of one node as a pure state machine: inputs with their instants go in, actions come out.
///
/// A node has one process at a time: the next process is spawned only after the previous one has been
/// reaped. An embedded coordinator has no process of its own. The transitions are in
/// `NodeLifecycle+StateMachine.swift`. Adopted processes, processes on other hosts and embedded
/// coordinators are in `NodeLifecycle+NonChildProcesses.swift`.
package struct NodeLifecycle: Sendable {
  /// A monotonic instant that does not advance while the machine is suspended, so that no node counts
  /// as hung when a laptop wakes up.
  package typealias Instant = SuspendingClock.Instant

  package enum State: Hashable, Sendable {
    /// The node was never started.
    case idle
    /// The carrier node of an embedded coordinator has no process, or its process is about to end.
    case awaitingHost
    /// A process of a former supervisor was sent a greeting; the supervisor waits for its answer.
    case adopting(until: Instant)
    /// The process is spawned or about to be; the supervisor waits for its hello.
    case starting(until: Instant)
    /// The process said hello and was sent its configuration; the supervisor waits until it is ready.
    case configuring(until: Instant)
    /// The process waits for the start command.
    case ready
    case running
    /// The process is on another host and has sent no sign of life, so that it is unknown whether it
    /// still runs. `was` is the state before.
    indirect case lost(was: State)
    /// The process was asked to stop, or killed; the supervisor waits for its end.
    case stopping(Stopping)
    /// There is no process; the next one is spawned at `until`.
    case backingOff(until: Instant)
    /// There is no process, and none should run.
    case stopped(StopReason)
    /// There is no process, and the supervisor has given up starting one.
    case failed(reason: String)
  }

  /// The purpose and the progress of stopping a process.
  package struct Stopping: Hashable, Sendable {
    package enum Purpose: Hashable, Sendable {
      case requested
      case restart
      /// The process was killed because of a failure. `isFinal` means that another start cannot help.
      case failure(reason: String, isFinal: Bool)
    }
    package enum Stage: Hashable, Sendable { case asked, terminated, killed }

    package var purpose: Purpose
    package var stage: Stage
    /// When the next stage starts.
    package var until: Instant
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
    /// The process is about to end, as requested earlier.
    case ending
    /// The process is not the wanted one.
    case differs(reason: String)
  }

  package enum Input: Hashable, Sendable {
    case start
    /// Adopt a process instead of starting one.
    case adopt(Survivor)
    /// A process that is being adopted has answered with a state that a new process does not have.
    case answered(Answer)
    case spawned(pid: Int32)
    /// There is no process: it could not be created, or it could not run its program and was reaped.
    /// `isDiskFull` means that a full disk is the only cause.
    case spawnFailed(reason: String, isDiskFull: Bool = false)
    /// The process said hello. `problem` is the reason why it cannot run: its description contradicts
    /// the topology, or the process reports a problem itself. A contradiction with the descriptions of
    /// other nodes may be found later and handed in again, before `ready`.
    case hello(failure: String?)
    /// The process has accepted its configuration and can be started.
    case ready
    /// The process reported why it is about to end. The reason is used when it does.
    case failureReported(reason: String)
    /// The start barrier is open for this node.
    case go
    /// A sign of life.
    case heartbeat
    /// The process has waited this long for a processor, since the supervisor started to wait for it or
    /// since the last input of this kind. The time does not count towards any deadline.
    case queued(Duration)
    /// The process has certainly ended, for example because it was reaped.
    case exited(ProcessExit)
    /// The process is on another host, and the program that started it there has ended without
    /// reporting its fate.
    case unattached(reason: String)
    /// The process is on another host, which answers and reports that the process exists.
    case present
    /// The incarnation is stale: a process with this number was started on another host before,
    /// although the local records do not show it.
    case staleIncarnation(by: Int)
    case stopRequested
    case killRequested
    case restartRequested
    /// The carrier node of an embedded coordinator has said hello, or is adopted.
    case carrierStarted
    /// The carrier node is about to stop in order, and waits for the embedded coordinator to end.
    case carrierStopping
    /// The process of the carrier node is gone, or is being killed.
    case carrierEnded
    case tick
  }

  package enum Action: Hashable, Sendable {
    /// Spawn the process and hand in `spawned` or `spawnFailed`; `spawnFailed` may also follow later.
    case spawn(incarnation: Int)
    /// Ask a process that is to be adopted for its identity and state.
    case greet
    case sendConfigure
    case sendStart
    case sendStop
    case kill(Signal)
    case report(NodeReport)
    /// Find out whether a process on another host still runs. Hand in `present`, or `exited` once its
    /// end is certain.
    case checkLiveness
    /// The supervisor has given up the node.
    case nodeFailed(reason: String)
    /// The node has no process, and none should run.
    case nodeStopped
  }

  package private(set) var restart: RestartPolicy
  package private(set) var timeouts: Timeouts
  /// The signal that stops a process which does not read frames yet, or does not answer.
  package private(set) var stopSignal: Signal
  package internal(set) var state: State = .idle
  /// The number of starts, including former runs.
  package internal(set) var incarnation: Int
  /// The highest incarnation ever used. An adopted process may have a lower one.
  var highestIncarnation: Int
  /// The number of starts in this run.
  package internal(set) var starts = 0
  /// The process id, from `spawned` until the process is reaped.
  package internal(set) var pid: Int32?
  /// When the process was spawned.
  package internal(set) var startedAt: Instant?
  /// The number of restarts after a failure since the last manual start of the node.
  package internal(set) var restarts = 0

  /// Why the node did not end in order when it was last stopped or restarted; `nil` if it did.
  package internal(set) var stopFailure: String?

  var lastSeen: Instant?
  /// The instants of the restarts that count against the limit.
  var recentRestarts: [Instant] = []
  /// The number of consecutive pauses because of a full disk.
  var pausesForSpace = 0
  var reportedFailure: String?
  /// The source of the jitter of pauses.
  var generator: SplitMix64
  /// Whether any process of this node has ever said hello. If none has, the program may not be a node
  /// program.
  var hasSaidHello = false
  /// The signal to send when `spawned` comes in, because the stop was requested before.
  var pendingSignal: Signal?
  /// Whether the node is embedded in the process of a carrier node.
  package private(set) var isEmbedded: Bool
  /// Whether the carrier node can start the embedded node.
  var hasCarrier = false
  /// Whether the node runs on another host, so that its silence does not prove that it has ended.
  package private(set) var isRemote: Bool

  /// - Parameters:
  ///   - incarnation: The number of starts so far.
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

  /// Applies the settings of the node from a changed file. A deadline that is already running keeps its
  /// instant.
  /// - Parameter isReplaced: Whether the next process of the node differs from the last one.
  package mutating func supervise(
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
  /// Whether there is no process and none will be spawned without a request.
  package var hasEnded: Bool {
    switch self {
    case .idle, .stopped, .failed: true
    case .awaitingHost, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping,
      .backingOff:
      false
    }
  }

  /// Whether there is a process, or one is being created.
  package var hasProcess: Bool {
    switch self {
    case .adopting, .starting, .configuring, .ready, .running, .lost, .stopping: true
    case .idle, .awaitingHost, .backingOff, .stopped, .failed: false
    }
  }

  /// Whether the process is being adopted.
  package var isAdopting: Bool {
    switch self {
    case .adopting: true
    case .lost(let was): was.isAdopting
    case .idle, .awaitingHost, .starting, .configuring, .ready, .running, .stopping, .backingOff,
      .stopped, .failed:
      false
    }
  }

  /// Whether the process can carry embedded coordinators.
  package var canCarryEmbeddedNodes: Bool {
    switch self {
    case .configuring, .ready, .running: true
    case .lost(let was): was.canCarryEmbeddedNodes
    case .idle, .awaitingHost, .adopting, .starting, .stopping, .backingOff, .stopped, .failed:
      false
    }
  }

  /// Whether the node was stopped on request, or was never started.
  package var isHeld: Bool {
    switch self {
    case .idle, .stopped(.requested): true
    case .stopping(let stopping): stopping.purpose == .requested
    case .awaitingHost, .adopting, .starting, .configuring, .ready, .running, .lost, .backingOff,
      .stopped(.completed), .failed:
      false
    }
  }

  /// The state in one or two words for tables: `running`, `backing off`.
  package var name: String {
    switch self {
    case .idle: "idle"
    case .awaitingHost: "waiting"
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
  /// When `tick` is due next; `nil` if no deadline is running.
  package var nextDeadline: Instant? {
    switch state {
    case .adopting(let until), .starting(let until), .configuring(let until),
      .backingOff(let until):
      until
    case .ready, .running: lastSeen.map { $0 + timeouts.heartbeat }
    case .stopping(let stopping): stopping.until
    case .idle, .awaitingHost, .lost, .stopped, .failed: nil
    }
  }

  /// Whether the process must act before a deadline that is running.
  package func isAwaited(at now: Instant) -> Bool {
    switch state {
    case .adopting, .starting, .configuring, .stopping: true
    case .ready, .running: lastSeen.map { now - $0 > timeouts.heartbeat / 4 } ?? false
    case .idle, .awaitingHost, .lost, .backingOff, .stopped, .failed: false
    }
  }

  /// Postpones the deadline for the process: time spent waiting for a processor on a busy machine does
  /// not count.
  mutating func queued(_ duration: Duration, at now: Instant) -> [Action] {
    switch state {
    case .adopting(let until): state = .adopting(until: until + duration)
    case .starting(let until): state = .starting(until: until + duration)
    case .configuring(let until): state = .configuring(until: until + duration)
    case .ready, .running: lastSeen = lastSeen.map { min(now, $0 + duration) }
    case .stopping(var stopping):
      stopping.until += duration
      state = .stopping(stopping)
    case .idle, .awaitingHost, .lost, .backingOff, .stopped, .failed: break
    }
    return []
  }

  /// Acts on the deadline if it has passed. Before a tick, hand in all messages that are waiting, so
  /// that no sign of life is overlooked.
  mutating func tick(at now: Instant) -> [Action] {
    guard let deadline = nextDeadline, now >= deadline else { return [] }
    switch state {
    case .adopting where isRemote:
      return lose(because: "the process did not answer within \(timeouts.start.shortText)", at: now)
    case .adopting:
      return replace(
        because: "the process did not answer within \(timeouts.start.shortText)", at: now)
    case .starting:
      let reason =
        "the process did not connect within \(timeouts.start.shortText); "
        + (isEmbedded
          ? "the carrier node may have been built with a version of PipeRuntime without embedded "
            + "coordinators: rebuild its program, or remove 'within'"
          : isRemote
            ? "check the log of the node, that the host answers, and that the program is a node "
              + "program"
            : "check the log of the node, and that the program is a node program")
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .configuring:
      let reason =
        reportedFailure
        ?? "the process was not ready within \(timeouts.start.shortText); check the log of the node"
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .ready, .running:
      if now - deadline > timeouts.heartbeat / 2 {
        // The tick is so late that the supervisor itself was suspended and could not receive signs of life.
        lastSeen = now
        return []
      }
      if isRemote { return lose(because: silence, at: now) }
      let reason = "hung: \(silence)"
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .stopping(let stopping):
      return escalate(stopping, at: now)
    case .backingOff:
      return spawn(at: now)
    case .idle, .awaitingHost, .lost, .stopped, .failed:
      return []
    }
  }

  private mutating func escalate(_ stopping: Stopping, at now: Instant) -> [Action] {
    switch stopping.stage {
    case .asked:
      beginStopping(for: stopping.purpose, .terminated, at: now)
      return pid == nil ? [] : [.kill(stopSignal)]
    case .terminated:
      let reason = "the process did not stop within \(timeouts.stop.shortText)"
      stopFailure = reason
      return killing(for: stopping.purpose, reason: reason, at: now)
    case .killed:
      beginStopping(for: stopping.purpose, .killed, at: now)
      guard let pid else { return [] }
      return [.kill(.kill), .report(isRemote ? .outOfReach(pid: pid) : .unkillable(pid: pid))]
    }
  }

  var silence: String { "no heartbeat for \(timeouts.heartbeat.shortText)" }
}
