import PipeSupport
import PipeSystem

/// When a node that has ended is started again. Source: DESIGN.md 3.4.
public struct RestartPolicy: Hashable, Sendable {
  /// Which ends are answered with a start.
  public enum Mode: String, CaseIterable, Hashable, Sendable {
    /// None.
    case never
    /// A non-zero exit, a signal, or a hang.
    case onFailure = "on-failure"
    /// Every one that was not asked for.
    case always
  }

  /// Which ends are answered with a start. Default: ``Mode/onFailure``.
  public var mode: Mode
  /// Restarts within ``window`` before the node has failed. Default: 5. Range: 0…1000000.
  public var max: Int
  /// How long a restart counts. Default: 60 s.
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
  /// What a process needs at least to start and to fail.
  private static let shortestLife: Duration = .milliseconds(100)

  /// How long a node must keep failing, at least, before it has failed for good; `nil` where that is longer than
  /// the window, so that it is restarted for ever.
  package var shortestWayToFailure: Duration? {
    guard mode != .never, max > 0 else { return .zero }
    var way = Duration.zero
    for attempt in 0..<max {
      way += backoff.pause(before: attempt) * (1 - backoff.jitter) + Self.shortestLife
      if way >= window { return nil }
    }
    return way
  }
}

extension RestartPolicy {
  /// The policy of a coordinator whose participants have these: as lasting as the most lasting of them,
  /// and never less than the default. Whoever is prepared for an event of its waits for its next process.
  package static func ofCoordinator(of participants: [RestartPolicy]) -> RestartPolicy {
    let standard = RestartPolicy()
    let lasting = participants.filter { $0.mode != .never }.max { $0.max < $1.max }
    guard let lasting, lasting.max > standard.max else { return standard }
    return lasting
  }
}

/// How a node is stopped, where it differs from the topology.
public struct StopPolicy: Hashable, Sendable {
  /// The signal for a process that does not listen yet, or does not end when it is asked to. Default: SIGTERM.
  public var signal: StopSignal
  /// From asking the node to stop to killing it; `nil` for the topology's.
  public var timeout: Duration?

  /// Makes a policy.
  public init(signal: StopSignal = .terminate, timeout: Duration? = nil) {
    self.signal = signal
    self.timeout = timeout
  }
}

/// A signal that asks a process to end.
public enum StopSignal: String, CaseIterable, Hashable, Sendable {
  /// SIGTERM, the usual one.
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

/// How long the parts of a topology's life may take.
public struct Timeouts: Hashable, Sendable {
  /// From spawning a node to its being ready. Default: 10 s.
  public var start: Duration
  /// The longest silence of a node before it counts as hung. Default: 5 s.
  public var heartbeat: Duration
  /// From asking a node to stop to killing it. Default: 5 s.
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
