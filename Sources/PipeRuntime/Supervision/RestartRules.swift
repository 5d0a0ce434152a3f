/// Whether and how often a node that ended is started again.
package struct RestartRules: Hashable, Sendable {
  package enum Policy: String, Hashable, Sendable, CaseIterable {
    /// Never started again.
    case never
    /// Started again after a crash, a non-zero exit code or a hang.
    case onFailure = "on-failure"
    /// Started again however it ended, unless it was asked to stop.
    case always
  }

  package var policy: Policy
  /// Restarts within `window` before the node is failed. Unit: restarts. Default: 5.
  package var limit: Int
  /// How long a restart counts against the limit. Default: 60 s.
  package var window: Duration
  /// The pauses before the restarts.
  package var backoff: Backoff

  package init(
    policy: Policy = .onFailure, limit: Int = 5, window: Duration = .seconds(60),
    backoff: Backoff = Backoff()
  ) {
    self.policy = policy
    self.limit = limit
    self.window = window
    self.backoff = backoff
  }
}

/// How long a node may take over what is asked of it.
package struct NodeTimeouts: Hashable, Sendable {
  /// From spawn to ready. Default: 10 s.
  package var start: Duration
  /// The longest silence of a node that is ready or running. Default: 5 s.
  package var heartbeat: Duration
  /// From the stop message to SIGKILL, with SIGTERM at half of it. Default: 5 s.
  package var stop: Duration

  package init(
    start: Duration = .seconds(10), heartbeat: Duration = .seconds(5),
    stop: Duration = .seconds(5)
  ) {
    self.start = start
    self.heartbeat = heartbeat
    self.stop = stop
  }
}
