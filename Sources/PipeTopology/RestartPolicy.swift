import PipeSupport
import PipeSystem

/// The rules that decide whether and when the orchestrator restarts a node whose process has ended.
/// Source: docs/TOPOLOGY.md.
public struct RestartPolicy: Hashable, Sendable {
  /// The kinds of exit that trigger a restart.
  public enum Mode: String, CaseIterable, Hashable, Sendable {
    /// The node is never restarted.
    case never
    /// The node is restarted after a non-zero exit code, a signal or a hang.
    case onFailure = "on-failure"
    /// The node is restarted after every exit that was not requested.
    case always
  }

  /// The kinds of exit that trigger a restart. Default: ``Mode/onFailure``.
  public var mode: Mode
  /// The number of restarts allowed within ``window`` before the node counts as failed. Default: 5.
  /// Range: 0…1000000.
  public var maximumRestarts: Int
  /// How long each restart counts towards ``maximumRestarts``. Default: 60 s.
  public var window: Duration
  /// The delays before restarts.
  public var backoff: Backoff

  /// Makes a policy.
  public init(
    _ mode: Mode = .onFailure, maximumRestarts: Int = 5, window: Duration = .seconds(60),
    backoff: Backoff = Backoff()
  ) {
    self.mode = mode
    self.maximumRestarts = maximumRestarts
    self.window = window
    self.backoff = backoff
  }

  static let maximumRestartsRange = 0...1_000_000
  /// The assumed minimum time for which a failing process runs.
  private static let minimumLifetime: Duration = .milliseconds(100)

  /// The minimum time in which a node that always fails reaches the restart limit.
  ///
  /// `nil` if this time exceeds the window: the node then never reaches the limit, and is restarted
  /// forever.
  package var minimumTimeToFailure: Duration? {
    guard mode != .never, maximumRestarts > 0 else { return .zero }
    var elapsed = Duration.zero
    for attempt in 0..<maximumRestarts {
      elapsed += backoff.pause(before: attempt) * (1 - backoff.jitter) + Self.minimumLifetime
      if elapsed >= window { return nil }
    }
    return elapsed
  }
}

extension RestartPolicy {
  /// Returns the restart policy of a coordinator whose participants have the given policies.
  ///
  /// The result is the participants' policy that allows the most restarts. If the default policy
  /// allows at least the same number, the result is the default policy. The coordinator must be
  /// restarted, since participants that are in doubt wait for the coordinator.
  package static func forCoordinator(of participants: [RestartPolicy]) -> RestartPolicy {
    let defaultPolicy = RestartPolicy()
    let mostPersistent = participants.filter { $0.mode != .never }.max {
      $0.maximumRestarts < $1.maximumRestarts
    }
    guard let mostPersistent, mostPersistent.maximumRestarts > defaultPolicy.maximumRestarts else {
      return defaultPolicy
    }
    return mostPersistent
  }
}

/// The signal and the time limit for stopping a node.
public struct StopPolicy: Hashable, Sendable {
  /// The signal for a process that cannot receive a stop command yet, or has not followed the
  /// command. Default: SIGTERM.
  public var signal: StopSignal
  /// The time from the stop command to SIGKILL; `nil` uses the topology's time.
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
  /// SIGINT, the signal of ^C.
  case interrupt = "SIGINT"
  /// SIGQUIT.
  case quit = "SIGQUIT"
  /// SIGHUP.
  case hangUp = "SIGHUP"
  /// SIGUSR1.
  case user1 = "SIGUSR1"
  /// SIGUSR2.
  case user2 = "SIGUSR2"

  /// The signal to send to a process.
  package var signal: Signal { Signal(rawValue) ?? .terminate }
}

/// The timeouts of a node's lifecycle.
public struct Timeouts: Hashable, Sendable {
  /// The maximum time from the start of a node's process until the node is ready. Default: 10 s.
  public var start: Duration
  /// The maximum time without a heartbeat. After this time, the node counts as hung. Default: 5 s.
  public var heartbeat: Duration
  /// The time from the stop command to SIGKILL. Default: 5 s.
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
