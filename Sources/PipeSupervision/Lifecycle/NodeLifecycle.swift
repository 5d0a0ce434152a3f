import PipeClient
import PipeSupport
import PipeSystem
import PipeTopology

/// The supervision of one node as a pure state machine: inputs with their instants go in, actions
/// come out.
///
/// One process at a time: the next one is spawned only after the one before has been reaped. A lodger
/// has none of its own: where it lives is `NodeLifecycle+Lodging.swift`. The
/// transitions are in `NodeLifecycle+StateMachine.swift`, those of a process that a former
/// supervisor left in `NodeLifecycle+Adoption.swift`, the timeouts in
/// `NodeLifecycle+Deadlines.swift`, and
/// what becomes of one on another host that is not heard any more in `NodeLifecycle+Elsewhere.swift`.
package struct NodeLifecycle: Sendable {
  /// A monotonic instant that stands still while the machine is suspended, so that no node is found
  /// hung when a laptop wakes up.
  package typealias Instant = SuspendingClock.Instant

  package enum State: Hashable, Sendable {
    /// Never started.
    case idle
    /// Of a lodger: the process in which it is to live is not there, or is about to end.
    case awaitingHost
    /// A process that a former supervisor started was greeted; its answer is awaited.
    case adopting(until: Instant)
    /// Spawned, or about to be; its hello is awaited.
    case starting(until: Instant)
    /// It said hello and was sent its configuration; ready is awaited.
    case configuring(until: Instant)
    /// It waits for the word to go.
    case ready
    case running
    /// On another host, of which nothing is heard: whether it goes on there cannot be told. What it was in when it
    /// was last heard of.
    indirect case lost(was: State)
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

  /// A process of the node that a former supervisor started and that lives.
  package struct Survivor: Hashable, Sendable {
    package var pid: Int32
    package var incarnation: Int

    package init(pid: Int32, incarnation: Int) {
      self.pid = pid
      self.incarnation = incarnation
    }
  }

  /// What a process that was greeted answers.
  package enum Answer: Hashable, Sendable {
    /// It is configured and waits for the word to go.
    case ready
    case running
    /// It is about to end, as it was told before.
    case ending
    /// It is another one than is wanted.
    case differs(reason: String)
  }

  package enum Input: Hashable, Sendable {
    case start
    /// Take over a process instead of starting one.
    case adopt(Survivor)
    /// The answer of a process that is being adopted, where it is not that of a fresh one.
    case answered(Answer)
    case spawned(pid: Int32)
    /// There is no process: it could not be made, or it could not run its program and was reaped.
    /// `isDiskFull` says that space on a disk is all that is missing.
    case spawnFailed(reason: String, isDiskFull: Bool = false)
    /// Its hello; `problem` says why it cannot run: how its description contradicts the topology, or
    /// what it says itself. A contradiction that shows only beside the other nodes' descriptions may
    /// be handed in again, before `ready`.
    case hello(problem: String?)
    /// Its configuration is accepted; it can be started.
    case ready
    /// It says why it is about to end; used as the reason when it does.
    case complained(reason: String)
    /// The start barrier is open for this node.
    case go
    /// Any sign of life.
    case heartbeat
    /// Its process stood in the queue for a processor so long, since it was awaited or since the last of
    /// these: no limit counts that time.
    case queued(Duration)
    /// Its process has certainly ended: it was reaped, say.
    case exited(ProcessExit)
    /// On another host: what started it there has ended without knowing what became of it.
    case unattached(reason: String)
    /// On another host: that host answers, and has the process.
    case present
    /// On another host: a process of this number was started there before, of which nothing here tells any more.
    case outnumbered(by: Int)
    case stopRequested
    case killRequested
    case restartRequested
    /// Of a lodger: the process in which it is to live has said hello, or is adopted.
    case hostCame
    /// The process in which it lives is about to end in order, and waits for it.
    case hostLeaves
    /// The process in which it lives is gone, or being killed.
    case hostWent
    case tick
  }

  package enum Action: Hashable, Sendable {
    /// Spawn the process and hand in `spawned` or `spawnFailed`; the latter may also come later.
    case spawn(incarnation: Int)
    /// Ask a process that is to be adopted who it is and where it stands.
    case greet
    case sendConfigure
    case sendStart
    case sendStop
    case kill(Signal)
    case report(NodeReport)
    /// Find out what became of a process on another host, and hand in `present`, or `exited` once that is certain.
    case findOut
    /// The node is given up.
    case nodeFailed(reason: String)
    /// The node has no process and wants none.
    case nodeStopped
  }

  package private(set) var restart: RestartPolicy
  package private(set) var timeouts: Timeouts
  /// The signal that asks a process to stop which does not listen, or does not answer.
  package private(set) var stopSignal: Signal
  package internal(set) var state: State = .idle
  /// The count of starts, former runs included.
  package internal(set) var incarnation: Int
  /// The highest incarnation that was ever given away, which a process that is adopted may be below.
  var highestIncarnation: Int
  /// The count of starts of this run.
  package internal(set) var starts = 0
  /// The process, from `spawned` until it is reaped.
  package internal(set) var pid: Int32?
  /// When the process was spawned.
  package internal(set) var startedAt: Instant?
  /// The restarts after a failure since the node was last started by hand.
  package internal(set) var restarts = 0

  /// Why it did not end in order when it was last stopped or restarted; `nil` where it did.
  package internal(set) var stopProblem: String?

  var lastSeen: Instant?
  /// The restarts that count against the limit.
  var recentRestarts: [Instant] = []
  /// The pauses in a row for want of disk space.
  var pausesForSpace = 0
  var complaint: String?
  /// Takes off a random part of each pause.
  var generator: SplitMix64
  /// Whether any process of this node ever said hello: if none did, it may be no node program.
  var hasSaidHello = false
  /// Whether the process was asked to end before `spawned` came in.
  var pendingSignal: Signal?
  /// Whether it lives in the process of another node.
  package private(set) var isLodger: Bool
  /// Whether that process takes it in.
  var hasHost = false
  /// Whether it runs on another host, so that to hear nothing of it does not tell that it has ended.
  package private(set) var isRemote: Bool

  /// - Parameters:
  ///   - incarnation: The count of starts so far.
  ///   - seed: Decides the jitter of the pauses before restarts.
  ///   - isLodger: Whether it lives in the process of another node.
  ///   - isRemote: Whether it runs on another host.
  package init(
    restart: RestartPolicy = RestartPolicy(), timeouts: Timeouts = Timeouts(),
    stopSignal: Signal = .terminate, incarnation: Int = 0, seed: UInt64 = 0,
    isLodger: Bool = false, isRemote: Bool = false
  ) {
    self.isRemote = isRemote
    self.isLodger = isLodger
    self.restart = restart
    self.timeouts = timeouts
    self.stopSignal = stopSignal
    self.incarnation = incarnation
    highestIncarnation = incarnation
    generator = SplitMix64(seed: seed)
  }

  /// Takes over what a changed file says of the node; what is waited for already keeps its limit.
  /// - Parameter isReplaced: Whether its next process is another one than its last.
  package mutating func supervise(
    restart: RestartPolicy, timeouts: Timeouts, stopSignal: Signal = .terminate, isReplaced: Bool,
    isLodger: Bool = false, isRemote: Bool = false
  ) {
    self.isRemote = isRemote
    self.isLodger = isLodger
    self.restart = restart
    self.timeouts = timeouts
    self.stopSignal = stopSignal
    if isReplaced { hasSaidHello = false }
  }
}

extension NodeLifecycle.State {
  /// Whether there is no process and none will be spawned without being asked for.
  package var hasEnded: Bool {
    switch self {
    case .idle, .stopped, .failed: true
    case .awaitingHost, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping,
      .backingOff:
      false
    }
  }

  /// Whether there is a process, or one is being made.
  package var hasProcess: Bool {
    switch self {
    case .adopting, .starting, .configuring, .ready, .running, .lost, .stopping: true
    case .idle, .awaitingHost, .backingOff, .stopped, .failed: false
    }
  }

  /// Whether its process is being taken over.
  package var isAdopting: Bool {
    switch self {
    case .adopting: true
    case .lost(let was): was.isAdopting
    case .idle, .awaitingHost, .starting, .configuring, .ready, .running, .stopping, .backingOff,
      .stopped, .failed:
      false
    }
  }

  /// Whether its process takes lodgers in.
  package var isOpenToLodgers: Bool {
    switch self {
    case .configuring, .ready, .running: true
    case .lost(let was): was.isOpenToLodgers
    case .idle, .awaitingHost, .adopting, .starting, .stopping, .backingOff, .stopped, .failed:
      false
    }
  }

  /// Whether somebody has stopped it by hand, or it was never started.
  package var isHeld: Bool {
    switch self {
    case .idle, .stopped(.requested): true
    case .stopping(let stopping): stopping.purpose == .requested
    case .awaitingHost, .adopting, .starting, .configuring, .ready, .running, .lost, .backingOff,
      .stopped(.completed), .failed:
      false
    }
  }

  /// One word for tables: `running`, `backing off`.
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
  /// When `tick` is due next; `nil` while nothing is waited for with a limit.
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

  /// Whether its process is to do something within a limit that passes.
  package func isAwaited(at now: Instant) -> Bool {
    switch state {
    case .adopting, .starting, .configuring, .stopping: true
    case .ready, .running: lastSeen.map { now - $0 > timeouts.heartbeat / 4 } ?? false
    case .idle, .awaitingHost, .lost, .backingOff, .stopped, .failed: false
    }
  }

  /// Moves the limit of what is awaited: on a busy machine it would count time in which the process had no
  /// chance to do it.
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

  /// Acts on the deadline if it has passed. Hand in all messages that wait before a tick, so that
  /// a node's sign of life is not overlooked.
  mutating func tick(at now: Instant) -> [Action] {
    guard let deadline = nextDeadline, now >= deadline else { return [] }
    switch state {
    case .adopting where isRemote:
      return lose(because: "it did not answer within \(timeouts.start.shortText)", at: now)
    case .adopting:
      return replace(because: "it did not answer within \(timeouts.start.shortText)", at: now)
    case .starting:
      let reason =
        "it did not say hello within \(timeouts.start.shortText); "
        + (isLodger
          ? "was the program of the node that it lives within built with a version that lets others "
            + "in? Build it anew, or take 'within' out"
          : isRemote
            ? "does its host answer, and is its program a node program? Its log may tell"
            : "is its program a node program? Its log may tell")
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .configuring:
      let reason =
        complaint
        ?? "it was not ready within \(timeouts.start.shortText); its log may tell what holds it"
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .ready, .running:
      if now - deadline > timeouts.heartbeat / 2 {
        // So late that the supervisor itself stood still: the silence was its own.
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
      let reason = "it did not stop within \(timeouts.stop.shortText)"
      stopProblem = reason
      return killing(for: stopping.purpose, reason: reason, at: now)
    case .killed:
      beginStopping(for: stopping.purpose, .killed, at: now)
      guard let pid else { return [] }
      return [.kill(.kill), .report(isRemote ? .outOfReach(pid: pid) : .unkillable(pid: pid))]
    }
  }

  var silence: String { "no sign of life for \(timeouts.heartbeat.shortText)" }
}
