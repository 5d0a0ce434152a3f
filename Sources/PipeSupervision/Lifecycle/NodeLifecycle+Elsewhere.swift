/// How a process on another host is followed: to hear nothing of it, or to lose what started it there, does not tell
/// that it has ended. Nothing is started in its place before that is certain.
extension NodeLifecycle {
  /// Nothing is heard of it.
  mutating func lose(because reason: String, at now: Instant) -> [Action] {
    state = .lost(was: state)
    return [.report(.lost(reason: reason)), .findOut]
  }

  /// What started it there has ended without knowing what became of it.
  mutating func unattached(because reason: String, at now: Instant) -> [Action] {
    switch state {
    case .starting, .adopting:
      return [.report(.unattached(reason: reason))]
        + lose(because: "it has not said hello", at: now)
    case .configuring, .ready, .running, .stopping:
      // As long as it is heard, it goes on.
      return [.report(.unattached(reason: reason)), .findOut]
    case .idle, .awaitingHost, .lost, .backingOff, .stopped, .failed:
      return []
    }
  }

  /// Takes an input while nothing is heard of it.
  mutating func handle(
    _ input: Input, whileLostFrom was: State, at now: Instant
  ) -> [Action] {
    switch input {
    case .hello, .ready, .heartbeat, .answered:
      comeBack(to: was, at: now)
      return [.report(.found)] + take(input, at: now)
    case .present:
      // It hears nothing and says nothing, on a host that answers.
      let reason = "hung: \(silence), and its host answers"
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .exited, .stopRequested, .killRequested, .restartRequested, .hostLeaves, .complained:
      comeBack(to: was, at: now)
      let actions = take(input, at: now)
      if case .complained = input { state = .lost(was: was) }
      return actions
    case .unattached(let reason):
      return [.report(.unattached(reason: reason)), .findOut]
    case .hostCame, .hostWent, .outnumbered: return take(input, at: now)
    case .start, .adopt, .spawned, .spawnFailed, .go, .queued, .tick: return []
    }
  }

  /// Takes up the state that it was lost in; what it was awaited for then has its time anew.
  private mutating func comeBack(to was: State, at now: Instant) {
    lastSeen = now
    state =
      switch was {
      case .starting: .starting(until: now + timeouts.start)
      case .adopting: .adopting(until: now + timeouts.start)
      case .configuring: .configuring(until: now + timeouts.start)
      case .idle, .awaitingHost, .ready, .running, .lost, .stopping, .backingOff, .stopped, .failed:
        was
      }
  }
}
