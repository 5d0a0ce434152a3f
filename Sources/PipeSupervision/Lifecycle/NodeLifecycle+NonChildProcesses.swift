import PipeClient

/// The adoption of a process that a former supervisor started. The supervisor sends a greeting, and
/// the process answers and continues with its state. If the process does not match the launch plan
/// or does not answer, the supervisor ends the process and starts a new process.
extension NodeLifecycle {
  mutating func adopt(_ survivor: Survivor, at now: Instant) -> [Action] {
    switch state {
    case .idle:
      pid = survivor.pid
      incarnation = survivor.incarnation
      starts = 1
      // The process is still alive, so it must have said hello in time. Otherwise, the former
      // supervisor would have killed it.
      hasSaidHello = true
      highestIncarnation = max(highestIncarnation, incarnation)
      state = .adopting(until: now + timeouts.start)
      return [.report(.adopting(pid: survivor.pid)), .greet]
    case .awaitingCarrier, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping,
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
    case .idle, .awaitingCarrier, .starting, .configuring, .lost, .stopping, .backingOff, .stopped,
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
    case .doesNotMatchPlan(let reason):
      return replace(because: reason, at: now)
    }
  }

  /// Ends a process that cannot be adopted. After the process has ended, the next process is
  /// spawned.
  mutating func replace(because reason: String, at now: Instant) -> [Action] {
    beginStopping(for: .restart, .terminated, at: now)
    return [.report(.replacing(reason: reason)), .kill(stopSignal)]
  }
}

/// The supervision of a process on another host. Even if the process is silent, or the program that
/// started it has ended, the process may still be running. The supervisor starts no replacement
/// before the process has certainly ended.
extension NodeLifecycle {
  /// Marks the process as lost, because it has sent no sign of life.
  mutating func lose(because reason: String, at now: Instant) -> [Action] {
    state = .lost(was: state)
    return [.report(.lost(reason: reason)), .checkLiveness]
  }

  /// Handles the end of the program that has started the process on the other host. The process
  /// itself may still be running.
  mutating func unattached(because reason: String, at now: Instant) -> [Action] {
    switch state {
    case .starting, .adopting:
      return [.report(.unattached(reason: reason))]
        + lose(because: "the process has not connected", at: now)
    case .configuring, .ready, .running, .stopping:
      // The process continues as long as it sends signs of life.
      return [.report(.unattached(reason: reason)), .checkLiveness]
    case .idle, .awaitingCarrier, .lost, .backingOff, .stopped, .failed:
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
      return [.report(.reachableAgain)] + take(input, at: now)
    case .present:
      // The host answers, but the process neither receives nor sends frames.
      let reason = "hung: \(silenceReason), but its host answers"
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
    case .start, .adopt, .spawned, .spawnFailed, .startBarrierOpened, .waitedForProcessor, .tick:
      return []
    }
  }

  /// Restores `was`, the state before the process was lost. If `was` has a deadline, the process
  /// gets the full start timeout again.
  private mutating func restoreState(to was: State, at now: Instant) {
    lastSeen = now
    state =
      switch was {
      case .starting: .starting(until: now + timeouts.start)
      case .adopting: .adopting(until: now + timeouts.start)
      case .configuring: .configuring(until: now + timeouts.start)
      case .idle, .awaitingCarrier, .ready, .running, .lost, .stopping, .backingOff, .stopped,
        .failed:
        was
      }
  }
}

/// The lifecycle of an embedded coordinator, which runs in the process of its carrier node. The
/// coordinator is spawned after the carrier node has said hello. Before the carrier node stops
/// gracefully, the coordinator ends, and then waits for the carrier node's next process.
extension NodeLifecycle {
  mutating func carrierStarted(at now: Instant) -> [Action] {
    hasCarrier = true
    switch state {
    case .awaitingCarrier:
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
    case .idle, .awaitingCarrier, .stopping, .backingOff, .stopped, .failed:
      return []
    }
  }

  /// Records that the process of the carrier node is gone. If the coordinator ran in that process,
  /// another input reports the coordinator's own exit.
  mutating func carrierEnded() -> [Action] {
    hasCarrier = false
    return []
  }
}
