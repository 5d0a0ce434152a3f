/// How a lodger, a node that lives in the process of another one, its host, follows that: it is spawned
/// when that process has said hello, ends before it where that ends in order, and waits for the next one.
extension NodeLifecycle {
  mutating func hostCame(at now: Instant) -> [Action] {
    hasHost = true
    switch state {
    case .awaitingHost:
      return spawn(at: now)
    case .idle, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping, .backingOff,
      .stopped, .failed:
      return []
    }
  }

  mutating func hostLeaves(at now: Instant) -> [Action] {
    hasHost = false
    guard isLodger else { return [] }
    switch state {
    case .adopting, .starting, .configuring, .ready, .running, .lost:
      return stop(for: .restart, at: now)
    case .idle, .awaitingHost, .stopping, .backingOff, .stopped, .failed:
      return []
    }
  }

  /// Its own end is told besides, where it lived in that process.
  mutating func hostWent() -> [Action] {
    hasHost = false
    return []
  }
}
