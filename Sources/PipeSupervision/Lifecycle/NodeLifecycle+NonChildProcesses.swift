import PipeClient

/// Adoption of a process that a former supervisor started: the supervisor sends a greeting, and the
/// process keeps its state. If the process is not the wanted one, or does not answer, the supervisor
/// ends it and starts a new one.
extension NodeLifecycle {
  mutating func adopt(_ survivor: Survivor, at now: Instant) -> [Action] {
    switch state {
    case .idle:
      pid = survivor.pid
      incarnation = survivor.incarnation
      starts = 1
      // The former supervisor would have killed the process if it had not said hello in time.
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
      return [.report(.replacing(reason: "the process is about to end"))]
    case .differs(let reason):
      return replace(because: reason, at: now)
    }
  }

  /// Ends a process that cannot be adopted. The next process is spawned once this one has ended.
  mutating func replace(because reason: String, at now: Instant) -> [Action] {
    beginStopping(for: .restart, .terminated, at: now)
    return [.report(.replacing(reason: reason)), .kill(stopSignal)]
  }
}

/// Supervision of a process on another host. Neither its silence nor the loss of the program that
/// started it proves that the process has ended. The supervisor starts no replacement before the end
/// of the process is certain.
extension NodeLifecycle {
  /// Marks the process as lost, because it has sent no sign of life.
  mutating func lose(because reason: String, at now: Instant) -> [Action] {
    state = .lost(was: state)
    return [.report(.lost(reason: reason)), .checkLiveness]
  }

  /// Handles the end of the program that started the process on the other host. The fate of the
  /// process is unknown.
  mutating func unattached(because reason: String, at now: Instant) -> [Action] {
    switch state {
    case .starting, .adopting:
      return [.report(.unattached(reason: reason))]
        + lose(because: "the process has not connected", at: now)
    case .configuring, .ready, .running, .stopping:
      // The process continues as long as it sends signs of life.
      return [.report(.unattached(reason: reason)), .checkLiveness]
    case .idle, .awaitingHost, .lost, .backingOff, .stopped, .failed:
      return []
    }
  }

  /// Handles an input while the process is lost.
  mutating func handle(
    _ input: Input, whileLostFrom was: State, at now: Instant
  ) -> [Action] {
    switch input {
    case .hello, .ready, .heartbeat, .answered:
      restoreState(to: was, at: now)
      return [.report(.found)] + take(input, at: now)
    case .present:
      // The process neither receives nor sends, although its host answers.
      let reason = "hung: \(silence), and the host answers"
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .exited, .stopRequested, .killRequested, .restartRequested, .carrierStopping,
      .failureReported:
      restoreState(to: was, at: now)
      let actions = take(input, at: now)
      if case .failureReported = input { state = .lost(was: was) }
      return actions
    case .unattached(let reason):
      return [.report(.unattached(reason: reason)), .checkLiveness]
    case .carrierStarted, .carrierEnded, .staleIncarnation: return take(input, at: now)
    case .start, .adopt, .spawned, .spawnFailed, .go, .queued, .tick: return []
    }
  }

  /// Restores the state in which the process was lost. A deadline of that state starts again.
  private mutating func restoreState(to was: State, at now: Instant) {
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

/// Lifecycle of an embedded coordinator, which runs in the process of another node, the carrier node.
/// It is spawned when the carrier has said hello, ends before the carrier stops in order, and waits for
/// the next process of the carrier.
extension NodeLifecycle {
  mutating func carrierStarted(at now: Instant) -> [Action] {
    hasCarrier = true
    switch state {
    case .awaitingHost:
      return spawn(at: now)
    case .idle, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping, .backingOff,
      .stopped, .failed:
      return []
    }
  }

  mutating func carrierStopping(at now: Instant) -> [Action] {
    hasCarrier = false
    guard isEmbedded else { return [] }
    switch state {
    case .adopting, .starting, .configuring, .ready, .running, .lost:
      return stop(for: .restart, at: now)
    case .idle, .awaitingHost, .stopping, .backingOff, .stopped, .failed:
      return []
    }
  }

  /// Notes that the carrier is gone. If the coordinator ran in that process, its own exit is reported
  /// separately.
  mutating func carrierEnded() -> [Action] {
    hasCarrier = false
    return []
  }
}
