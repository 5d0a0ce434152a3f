import PipeClient
import PipeSupport
import PipeSystem

extension NodeLifecycle {
  /// Handles one input. Ignores an input that the current state does not expect: the input comes
  /// from a process that was given up before, or repeats a known fact.
  package mutating func handle(_ input: Input, at now: Instant) -> [Action] {
    if case .lost(let was) = state { return handle(input, whileLostFrom: was, at: now) }
    return take(input, at: now)
  }

  mutating func take(_ input: Input, at now: Instant) -> [Action] {
    switch input {
    case .start: start(at: now)
    case .adopt(let survivor): adopt(survivor, at: now)
    case .answered(let answer): answered(answer, at: now)
    case .spawned(let pid): spawned(pid, at: now)
    case .spawnFailed(let reason, let isDiskFull):
      spawnFailed(reason, isDiskFull: isDiskFull, at: now)
    case .hello(let problem): hello(problem, at: now)
    case .ready: ready(at: now)
    case .failureReported(let reason): failureReported(reason)
    case .startBarrierOpened: go(at: now)
    case .heartbeat: heartbeat(at: now)
    case .waitedForProcessor(let duration): postponeDeadline(by: duration, at: now)
    case .exited(let exit): exited(exit, at: now)
    case .unattached(let reason): unattached(because: reason, at: now)
    case .present: []
    case .staleIncarnation(let number): staleIncarnation(by: number, at: now)
    case .stopRequested: stop(for: .requested, at: now)
    case .killRequested: killRequested(at: now)
    case .restartRequested: restartRequested(at: now)
    case .carrierStarted: carrierStarted(at: now)
    case .carrierStopping: carrierStopping(at: now)
    case .carrierEnded: carrierEnded()
    case .tick: tick(at: now)
    }
  }

  // MARK: Starting the node's process

  private mutating func start(at now: Instant) -> [Action] {
    switch state {
    case .idle, .stopped, .failed:
      recentRestarts = []
      pausesForSpace = 0
      restarts = 0
      return spawn(at: now)
    case .backingOff:
      return spawn(at: now)
    case .awaitingCarrier:
      return []
    case .stopping(var stopping):
      guard stopping.purpose == .requested else { return [] }
      stopping.purpose = .restart
      state = .stopping(stopping)
      return []
    case .adopting, .starting, .configuring, .ready, .running, .lost:
      return []
    }
  }

  mutating func spawn(at now: Instant) -> [Action] {
    if isEmbedded, !hasCarrier {
      state = .awaitingCarrier
      return []
    }
    highestIncarnation += 1
    incarnation = highestIncarnation
    starts += 1
    reportedFailure = nil
    pendingSignal = nil
    state = .starting(until: now + timeouts.start)
    return [.report(.starting(incarnation: incarnation)), .spawn(incarnation: incarnation)]
  }

  private mutating func staleIncarnation(by number: Int, at now: Instant) -> [Action] {
    guard number >= highestIncarnation else { return [] }
    highestIncarnation = number
    guard case .starting = state, pid == nil else { return [] }
    return spawn(at: now)
  }

  private mutating func spawned(_ pid: Int32, at now: Instant) -> [Action] {
    switch state {
    case .starting:
      self.pid = pid
      startedAt = now
      return [.report(.spawned(pid: pid))]
    case .stopping:
      // While the process was being spawned, a stop of the node was requested.
      self.pid = pid
      startedAt = now
      defer { pendingSignal = nil }
      return [.report(.spawned(pid: pid))] + (pendingSignal.map { [.kill($0)] } ?? [])
    case .idle, .awaitingCarrier, .adopting, .configuring, .ready, .running, .lost, .backingOff,
      .stopped, .failed:
      return []
    }
  }

  private mutating func spawnFailed(
    _ reason: String, isDiskFull: Bool, at now: Instant
  ) -> [Action] {
    switch state {
    case .starting:
      forgetProcess()
      return isDiskFull ? waitForSpace(reason, at: now) : fail(reason, at: now)
    case .stopping(let stopping):
      forgetProcess()
      return ended(stopping.purpose, at: now)
    case .idle, .awaitingCarrier, .adopting, .configuring, .ready, .running, .lost, .backingOff,
      .stopped, .failed:
      return []
    }
  }

  private mutating func forgetProcess() {
    pid = nil
    startedAt = nil
    lastSeen = nil
  }

  private mutating func hello(_ problem: String?, at now: Instant) -> [Action] {
    switch state {
    case .starting(let until), .adopting(let until):
      let report: NodeReport
      if case .adopting = state {
        report = .adopted(incarnation: incarnation)
      } else {
        report = .saidHello
      }
      hasSaidHello = true
      lastSeen = now
      if let problem { return refuse(problem, at: now) }
      state = .configuring(until: until)
      return [.report(report), .sendConfigure]
    case .configuring:
      lastSeen = now
      // The problem was found when descriptions of other nodes arrived after this node's hello.
      return problem.map { refuse($0, at: now) } ?? []
    case .ready, .running:
      lastSeen = now
      return []
    case .idle, .awaitingCarrier, .lost, .stopping, .backingOff, .stopped, .failed:
      return []
    }
  }

  /// Kills a node that does not match the topology. Its next process would not match either, so the
  /// failure is final.
  private mutating func refuse(_ problem: String, at now: Instant) -> [Action] {
    killing(for: .failure(reason: problem, isFinal: true), reason: problem, at: now)
  }

  private mutating func ready(at now: Instant) -> [Action] {
    switch state {
    case .configuring:
      lastSeen = now
      state = .ready
      return [.report(.ready)]
    case .ready:
      lastSeen = now
      return []
    case .running:
      lastSeen = now
      // The node has not received the start command yet.
      return [.sendStart]
    case .idle, .awaitingCarrier, .adopting, .starting, .lost, .stopping, .backingOff, .stopped,
      .failed:
      return []
    }
  }

  private mutating func go(at now: Instant) -> [Action] {
    switch state {
    case .ready:
      lastSeen = now
      pausesForSpace = 0
      state = .running
      return [.sendStart, .report(.running)]
    case .idle, .awaitingCarrier, .adopting, .starting, .configuring, .running, .lost, .stopping,
      .backingOff, .stopped, .failed:
      return []
    }
  }

  private mutating func heartbeat(at now: Instant) -> [Action] {
    switch state {
    case .configuring, .ready, .running: lastSeen = now
    case .idle, .awaitingCarrier, .adopting, .starting, .lost, .stopping, .backingOff, .stopped,
      .failed:
      break
    }
    return []
  }

  private mutating func failureReported(_ reason: String) -> [Action] {
    switch state {
    case .adopting, .starting, .configuring, .ready, .running: reportedFailure = reason
    case .idle, .awaitingCarrier, .lost, .stopping, .backingOff, .stopped, .failed: break
    }
    return []
  }

  // MARK: Ending the node's process

  private mutating func restartRequested(at now: Instant) -> [Action] {
    switch state {
    case .idle, .awaitingCarrier, .stopped, .failed, .backingOff: start(at: now)
    case .adopting, .starting, .configuring, .ready, .running, .lost, .stopping:
      stop(for: .restart, at: now)
    }
  }

  mutating func stop(for purpose: Stopping.Purpose, at now: Instant) -> [Action] {
    switch state {
    case .idle:
      state = .stopped(.requested)
      return [.nodeStopped]
    case .starting, .adopting:
      stopFailure = nil
      // The process does not read frames yet, so the supervisor sends a signal.
      beginStopping(for: purpose, .terminated, at: now)
      return [.report(.stopping)] + signal(stopSignal)
    case .configuring, .ready, .running:
      stopFailure = nil
      beginStopping(for: purpose, .asked, at: now)
      return [.report(.stopping), .sendStop]
    case .stopping(var stopping):
      stopping.purpose = purpose
      state = .stopping(stopping)
      return []
    case .backingOff, .awaitingCarrier:
      stopFailure = nil
      state = .stopped(.requested)
      return [.report(.stopped), .nodeStopped]
    case .lost, .stopped, .failed:
      stopFailure = nil
      return []
    }
  }

  private mutating func killRequested(at now: Instant) -> [Action] {
    switch state {
    case .idle, .awaitingCarrier, .backingOff, .stopped, .failed:
      return stop(for: .requested, at: now)
    case .adopting, .starting, .configuring, .ready, .running, .lost, .stopping:
      return killing(for: .requested, reason: "forced", at: now)
    }
  }

  private mutating func exited(_ exit: ProcessExit, at now: Instant) -> [Action] {
    forgetProcess()
    let report = Action.report(.exited(exit))
    switch state {
    case .adopting:
      // The process has ended before its adoption was complete. A new process replaces it.
      return [report] + spawn(at: now)
    case .starting:
      return [report] + fail(earlyExit(exit, before: "it connected"), by: exit, at: now)
    case .configuring:
      return [report] + fail(earlyExit(exit, before: "it was ready"), by: exit, at: now)
    case .ready:
      return [report] + fail(reportedFailure ?? exit.description, by: exit, at: now)
    case .running:
      // An embedded coordinator never completes by itself: it ends only together with its carrier
      // node, or because of a failure.
      if exit.isSuccess, restart.mode != .always, !isEmbedded {
        state = .stopped(.completed)
        return [report, .report(.completed), .nodeStopped]
      }
      return [report] + fail(reportedFailure ?? exit.description, by: exit, at: now)
    case .stopping(let stopping):
      if let problem = problem(with: exit, of: stopping) { stopFailure = problem }
      return [report] + ended(stopping.purpose, at: now)
    case .idle, .awaitingCarrier, .lost, .backingOff, .stopped, .failed:
      return []
    }
  }

  /// Returns the reason why the exit of a process was not graceful. Returns `nil` if the process
  /// exited as requested, or if it is unknown how the process exited.
  private func problem(with exit: ProcessExit, of stopping: Stopping) -> String? {
    switch (stopping.stage, exit) {
    case (_, .exited(code: 0)), (_, .unreported), (_, .unobserved(isCertain: true)),
      (_, .leaseExpired):
      nil
    case (.terminated, .signalled(stopSignal.number)),
      (.killed, .signalled(Signal.kill.number)):
      nil
    case (.asked, _), (.terminated, _), (.killed, _): reportedFailure ?? "\(exit)"
    }
  }

  private func earlyExit(_ exit: ProcessExit, before step: String) -> String {
    if let reportedFailure { return reportedFailure }
    return "the process ended (\(exit)) before \(step); check the log of the node"
      + (hasSaidHello ? "" : ", and that the program is a node program")
  }

  /// Handles the end of a process that was being stopped. The purpose of the stop decides what the
  /// node does next.
  private mutating func ended(_ purpose: Stopping.Purpose, at now: Instant) -> [Action] {
    let stopReports = stopFailure.map { [Action.report(.ungracefulStop(reason: $0))] } ?? []
    switch purpose {
    case .requested:
      state = .stopped(.requested)
      return stopReports + [.report(.stopped), .nodeStopped]
    case .restart:
      return stopReports + spawn(at: now)
    case .failure(let reason, let isFinal):
      return isFinal ? giveUp(reason) : fail(reason, at: now)
    }
  }

  /// Handles the failure of a process. If a full disk is the cause, waits for disk space; otherwise
  /// backs off or gives up.
  private mutating func fail(
    _ reason: String, by exit: ProcessExit, at now: Instant
  ) -> [Action] {
    exit == .diskFull ? waitForSpace(reason, at: now) : fail(reason, at: now)
  }

  /// Schedules the next start. This start does not count against the restart limit, since no
  /// restart can succeed until disk space is freed.
  private mutating func waitForSpace(_ reason: String, at now: Instant) -> [Action] {
    guard restart.mode != .never else { return giveUp(reason) }
    let pause = restart.backoff.pause(before: pausesForSpace, using: &generator)
    pausesForSpace += 1
    restarts += 1
    state = .backingOff(until: now + pause)
    return [.report(.waitingForSpace(after: pause, reason: reason))]
  }

  /// Handles a failure after the process has ended or could not be started: backs off or gives up.
  private mutating func fail(_ reason: String, at now: Instant) -> [Action] {
    guard restart.mode != .never else { return giveUp(reason) }
    let window = restart.window
    recentRestarts.removeAll { now - $0 >= window }
    guard recentRestarts.count < restart.maximumRestarts else {
      let count = recentRestarts.count
      guard count > 0 else { return giveUp(reason) }
      return giveUp(
        "\(reason); given up after \(count) restart\(count == 1 ? "" : "s") "
          + "within \(restart.window.shortText)")
    }
    let pause = restart.backoff.pause(before: recentRestarts.count, using: &generator)
    recentRestarts.append(now)
    restarts += 1
    state = .backingOff(until: now + pause)
    let report = NodeReport.restarting(
      after: pause, attempt: recentRestarts.count, limit: restart.maximumRestarts, reason: reason)
    return [.report(report)]
  }

  private mutating func giveUp(_ reason: String) -> [Action] {
    state = .failed(reason: reason)
    return [.report(.failed(reason: reason)), .nodeFailed(reason: reason)]
  }

  /// Kills the process now. After the process has been reaped, `purpose` decides what the node does
  /// next.
  mutating func killing(
    for purpose: Stopping.Purpose, reason: String, at now: Instant
  ) -> [Action] {
    beginStopping(for: purpose, .killed, at: now)
    return [.report(.killing(reason: reason))] + signal(.kill)
  }

  /// Begins a stage of stopping, and sets the deadline of the stage. The stop command and the stop
  /// signal after it each have half of the stop timeout. A process that does not read frames yet
  /// receives no stop command, so its stop signal has the full timeout.
  mutating func beginStopping(
    for purpose: Stopping.Purpose, _ stage: Stopping.Stage, at now: Instant
  ) {
    let wasAsked =
      if case .stopping(let stopping) = state { stopping.stage == .asked } else { false }
    let isShared = stage == .asked || stage == .terminated && wasAsked
    let limit = isShared ? timeouts.stop / 2 : timeouts.stop
    state = .stopping(Stopping(purpose: purpose, stage: stage, deadline: now + limit))
  }

  private mutating func signal(_ signal: Signal) -> [Action] {
    if pid != nil { return [.kill(signal)] }
    pendingSignal = signal
    return []
  }
}
