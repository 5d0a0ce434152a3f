import PipeClient

/// How a process is taken over that a former supervisor started: it is greeted, and goes on where it
/// stands. One that is not what is wanted, or does not answer, is ended and started anew.
extension NodeLifecycle {
  mutating func adopt(_ survivor: Survivor, at now: Instant) -> [Action] {
    switch state {
    case .idle:
      pid = survivor.pid
      incarnation = survivor.incarnation
      starts = 1
      // The former supervisor would have ended it, had it not said hello in its time.
      hasSaidHello = true
      highestIncarnation = max(highestIncarnation, incarnation)
      state = .adopting(until: now + timeouts.start)
      return [.report(.adopting(pid: survivor.pid)), .greet]
    case .awaitingHost, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping,
      .backingOff, .stopped, .failed:
      return []
    }
  }

  mutating func answered(_ answer: Answer, at now: Instant) -> [Action] {
    switch state {
    case .adopting:
      lastSeen = now
      return adopted(answer, at: now)
    case .ready, .running:
      lastSeen = now
      return []
    case .idle, .awaitingHost, .starting, .configuring, .lost, .stopping, .backingOff, .stopped,
      .failed:
      return []
    }
  }

  private mutating func adopted(_ answer: Answer, at now: Instant) -> [Action] {
    switch answer {
    case .ready:
      state = .ready
      return [.report(.adopted(incarnation: incarnation))]
    case .running:
      state = .running
      return [.report(.adopted(incarnation: incarnation))]
    case .ending:
      beginStopping(for: .restart, .asked, at: now)
      return [.report(.replacing(reason: "it is about to end"))]
    case .differs(let reason):
      return replace(because: reason, at: now)
    }
  }

  /// Ends the process that cannot be adopted; the next one is spawned once it is gone.
  mutating func replace(because reason: String, at now: Instant) -> [Action] {
    beginStopping(for: .restart, .terminated, at: now)
    return [.report(.replacing(reason: reason)), .kill(stopSignal)]
  }
}
