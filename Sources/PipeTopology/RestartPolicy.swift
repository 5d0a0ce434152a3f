import PipeSupport
import PipeSystem

/// When the orchestrator restarts a node that has ended. Source: docs/TOPOLOGY.md.
public struct RestartPolicy: Hashable, Sendable {
  /// The kinds of exit that trigger a restart.
  public enum Mode: String, CaseIterable, Hashable, Sendable {
    /// No exit.
    case never
    /// A non-zero exit, a signal, or a hang.
    case onFailure = "on-failure"
    /// Every exit that was not requested.
    case always
  }

  /// The kinds of exit that trigger a restart. Default: ``Mode/onFailure``.
  public var mode: Mode
  /// The number of restarts allowed within ``window`` before the node counts as failed. Default: 5.
  /// Range: 0…1000000.
  public var max: Int
  /// The time for which a restart counts towards ``max``. Default: 60 s.
  public var window: Duration
  /// The wait before a restart.
  public var backoff: Backoff

  /// Makes a policy.
  public init(
    _ mode: Mode = .onFailure, max: Int = 5, window: Duration = .seconds(60),
    backoff: Backoff = Backoff()
  ) {
    self.mode = mode
    self.max = max
    self.window = window
    self.backoff = backoff
  }

  static let maxRange = 0...1_000_000
  /// The shortest time assumed for a process to start and fail.
  private static let minimumLifetime: Duration = .milliseconds(100)

  /// The shortest time in which a node that keeps failing reaches the restart limit.
  ///
  /// `nil` when that time exceeds the window: the node is restarted forever.
  package var minimumTimeToFailure: Duration? {
    guard mode != .never, max > 0 else { return .zero }
    var elapsed = Duration.zero
    for attempt in 0..<max {
      elapsed += backoff.pause(before: attempt) * (1 - backoff.jitter) + Self.minimumLifetime
      if elapsed >= window { return nil }
    }
    return elapsed
  }
}

extension RestartPolicy {
  /// Returns the restart policy of a coordinator whose participants have the given policies.
  ///
  /// It is the policy with the most restarts, and never less than the default. A participant that
  /// is prepared for an event waits for the coordinator's next process.
  package static func forCoordinator(of participants: [RestartPolicy]) -> RestartPolicy {
    let defaultPolicy = RestartPolicy()
    let mostPersistent = participants.filter { $0.mode != .never }.max { $0.max < $1.max }
    guard let mostPersistent, mostPersistent.max > defaultPolicy.max else { return defaultPolicy }
    return mostPersistent
  }
}

/// How a node is stopped.
public struct StopPolicy: Hashable, Sendable {
  /// The signal for a process that is not listening yet, or does not end on request. Default:
  /// SIGTERM.
  public var signal: StopSignal
  /// The time from the stop request to SIGKILL; `nil` uses the topology's.
  public var timeout: Duration?

  /// Makes a policy.
  public init(signal: StopSignal = .terminate, timeout: Duration? = nil) {
    self.signal = signal
    self.timeout = timeout
  }
}

/// A signal that asks a process to end.
public enum StopSignal: String, CaseIterable, Hashable, Sendable {
  /// SIGTERM, the default.
  case terminate = "SIGTERM"
  /// SIGINT, as ^C sends it.
  case interrupt = "SIGINT"
  /// SIGQUIT.
  case quit = "SIGQUIT"
  /// SIGHUP.
  case hangUp = "SIGHUP"
  /// SIGUSR1.
  case user1 = "SIGUSR1"
  /// SIGUSR2.
  case user2 = "SIGUSR2"

  /// The signal itself.
  package var signal: Signal { Signal(rawValue) ?? .terminate }
}

/// The timeouts of a node's lifecycle.
public struct Timeouts: Hashable, Sendable {
  /// The time from spawning a node to its being ready. Default: 10 s.
  public var start: Duration
  /// The longest silence of a node before it counts as hung. Default: 5 s.
  public var heartbeat: Duration
  /// The time from the stop request to SIGKILL. Default: 5 s.
  public var stop: Duration

  /// Makes timeouts.
  public init(
    start: Duration = .seconds(10), heartbeat: Duration = .seconds(5), stop: Duration = .seconds(5)
  ) {
    self.start = start
    self.heartbeat = heartbeat
    self.stop = stop
  }
}
