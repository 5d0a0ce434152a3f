extension NodeLifecycle {
  /// When `tick` is due next; `nil` while nothing is waited for with a limit.
  package var nextDeadline: Instant? {
    switch state {
    case .adopting(let until), .starting(let until), .configuring(let until),
      .backingOff(let until):
      until
    case .ready, .running: lastSeen.map { $0 + timeouts.heartbeat }
    case .stopping(let stopping): stopping.until
    case .idle, .awaitingHost, .lost, .stopped, .failed: nil
    }
  }

  /// Whether its process is to do something within a limit that passes.
  package func isAwaited(at now: Instant) -> Bool {
    switch state {
    case .adopting, .starting, .configuring, .stopping: true
    case .ready, .running: lastSeen.map { now - $0 > timeouts.heartbeat / 4 } ?? false
    case .idle, .awaitingHost, .lost, .backingOff, .stopped, .failed: false
    }
  }

  /// Moves the limit of what is awaited: on a busy machine it would count time in which the process had no
  /// chance to do it.
  mutating func queued(_ duration: Duration, at now: Instant) -> [Action] {
    switch state {
    case .adopting(let until): state = .adopting(until: until + duration)
    case .starting(let until): state = .starting(until: until + duration)
    case .configuring(let until): state = .configuring(until: until + duration)
    case .ready, .running: lastSeen = lastSeen.map { min(now, $0 + duration) }
    case .stopping(var stopping):
      stopping.until += duration
      state = .stopping(stopping)
    case .idle, .awaitingHost, .lost, .backingOff, .stopped, .failed: break
    }
    return []
  }

  /// Acts on the deadline if it has passed. Hand in all messages that wait before a tick, so that
  /// a node's sign of life is not overlooked.
  mutating func tick(at now: Instant) -> [Action] {
    guard let deadline = nextDeadline, now >= deadline else { return [] }
    switch state {
    case .adopting where isElsewhere:
      return lose(because: "it did not answer within \(timeouts.start.shortText)", at: now)
    case .adopting:
      return replace(because: "it did not answer within \(timeouts.start.shortText)", at: now)
    case .starting:
      let reason =
        "it did not say hello within \(timeouts.start.shortText); "
        + (isLodger
          ? "was the program of the node that it lives within built with a version that lets others "
            + "in? Build it anew, or take 'within' out"
          : isElsewhere
            ? "does its host answer, and is its program a node program? Its log may tell"
            : "is its program a node program? Its log may tell")
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .configuring:
      let reason =
        complaint
        ?? "it was not ready within \(timeouts.start.shortText); its log may tell what holds it"
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .ready, .running:
      if now - deadline > timeouts.heartbeat / 2 {
        // So late that the supervisor itself stood still: the silence was its own.
        lastSeen = now
        return []
      }
      if isElsewhere { return lose(because: silence, at: now) }
      let reason = "hung: \(silence)"
      return killing(for: .failure(reason: reason, isFinal: false), reason: reason, at: now)
    case .stopping(let stopping):
      return escalate(stopping, at: now)
    case .backingOff:
      return spawn(at: now)
    case .idle, .awaitingHost, .lost, .stopped, .failed:
      return []
    }
  }

  private mutating func escalate(_ stopping: Stopping, at now: Instant) -> [Action] {
    switch stopping.stage {
    case .asked:
      beginStopping(for: stopping.purpose, .terminated, at: now)
      return pid == nil ? [] : [.kill(stopSignal)]
    case .terminated:
      let reason = "it did not stop within \(timeouts.stop.shortText)"
      stopProblem = reason
      return killing(for: stopping.purpose, reason: reason, at: now)
    case .killed:
      beginStopping(for: stopping.purpose, .killed, at: now)
      guard let pid else { return [] }
      return [.kill(.kill), .report(isElsewhere ? .outOfReach(pid: pid) : .unkillable(pid: pid))]
    }
  }

  var silence: String { "no sign of life for \(timeouts.heartbeat.shortText)" }
}
