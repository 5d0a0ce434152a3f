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
