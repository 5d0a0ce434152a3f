import PipeTopology

extension TopologyLifecycle {
  /// Handles one input, and returns the actions that the caller must perform, in this order.
  /// Perform the actions of an input before you pass the next input.
  package mutating func handle(_ input: Input, at now: Instant) -> [Action] {
    var actions: [Action] = []
    if take(input, at: now, into: &actions) { advance(at: now, into: &actions) }
    return actions
  }

  /// Handles one input, but does not call ``advance(at:into:)`` for the steps that the input makes
  /// possible.
  /// - Returns: Whether further steps may have become possible.
  private mutating func take(
    _ input: Input, at now: Instant, into actions: inout [Action]
  ) -> Bool {
    switch input {
    case .start: return start(at: now, into: &actions)
    case .node(let name, let input):
      guard canAccept(input, name) else { return false }
      pass(input, to: name, at: now, into: &actions)
      // Heartbeats are frequent, and usually change no other node.
      return input != .heartbeat
    case .stateObserved(let name, let state): return recordState(state, of: name)
    case .change(let change): return self.change(change, into: &actions)
    case .stopNodes(let names): return end(names, andThen: nil)
    case .moved(let outcome):
      finishMove(outcome, at: now, into: &actions)
      return true
    case .stop(let outcome):
      beginStopping(outcome, into: &actions)
      return true
    case .kill(let outcome): return kill(outcome, at: now, into: &actions)
    case .tick:
      for member in members where (nodes[member.name]?.nextDeadline).map({ $0 <= now }) ?? false {
        pass(.tick, to: member.name, at: now, into: &actions)
      }
      return !actions.isEmpty
    }
  }

  private mutating func start(at now: Instant, into actions: inout [Action]) -> Bool {
    switch state {
    case .idle:
      state = .starting
      actions.append(.report(.starting(nodes: members.count)))
      for member in members {
        let input: NodeLifecycle.Input =
          survivors[member.name].map { NodeLifecycle.Input.adopt($0) }
          ?? (heldNodes.contains(member.name) ? .stopRequested : .start)
        pass(input, to: member.name, at: now, into: &actions)
      }
      return true
    case .starting, .running, .changing, .stopping, .finished: return false
    }
  }

  /// Whether a node accepts an input now. A topology that is stopping starts no nodes. A node that
  /// is stopped for a change does not start before the change takes effect.
  private func canAccept(_ input: NodeLifecycle.Input, _ name: String) -> Bool {
    switch (state, input) {
    case (.stopping, .start), (.stopping, .adopt), (.stopping, .restartRequested),
      (.stopping, .startBarrierOpened), (.finished, _):
      false
    case (.changing(let changing), .start), (.changing(let changing), .adopt),
      (.changing(let changing), .restartRequested), (.changing(let changing), .startBarrierOpened):
      !changing.isEnding(name)
    case (.idle, _), (.starting, _), (.running, _), (.changing, _), (.stopping, _): true
    }
  }

  private mutating func beginStopping(_ outcome: Outcome, into actions: inout [Action]) {
    switch state {
    case .idle, .starting, .running, .changing:
      state = .stopping(outcome, wave: 0)
      actions.append(.report(.stopping(reason: outcome.reason)))
    case .stopping, .finished:
      break
    }
  }

  private mutating func kill(
    _ outcome: Outcome, at now: Instant, into actions: inout [Action]
  ) -> Bool {
    switch state {
    case .finished: return false
    case .idle, .starting, .running, .changing, .stopping:
      actions.append(.report(.stopping(reason: outcome.reason)))
      state = .stopping(outcome, wave: 0)
      for member in members { pass(.killRequested, to: member.name, at: now, into: &actions) }
      return true
    }
  }

  mutating func pass(
    _ input: NodeLifecycle.Input, to name: String, at now: Instant, into actions: inout [Action]
  ) {
    if holdBack(input, from: name, at: now, into: &actions) { return }
    let wasOpen = nodes[name]?.state.canCarryEmbeddedNodes
    guard let node = nodes[name]?.handle(input, at: now) else { return }
    for action in node {
      actions.append(.node(name, action))
      if case .report(let report) = action { recordStopFailure(report, of: name) }
    }
    // Heartbeats are frequent. A heartbeat changes other nodes only if its own node was lost.
    if input == .heartbeat, node.isEmpty { return }
    if wasOpen != nodes[name]?.state.canCarryEmbeddedNodes {
      notifyEmbeddedNodes(of: name, at: now, into: &actions)
    }
    releaseHeldInputs(at: now, into: &actions)
  }

  /// While the topology is stopping, records each node that did not stop gracefully.
  private mutating func recordStopFailure(_ report: NodeReport, of name: String) {
    guard case .stopping = state else { return }
    switch report {
    case .ungracefulStop(let reason), .failed(let reason), .restarting(_, _, _, let reason),
      .waitingForSpace(_, let reason):
      stopFailures.append((name, reason))
    case .starting, .spawned, .saidHello, .adopting, .adopted, .replacing, .ready, .waiting,
      .running, .stopping, .killing, .exited, .stopped, .completed, .unkillable, .unreadableStatus,
      .programNotCopied, .lost, .reachableAgain, .unattached, .outOfReach, .moving, .awaitingHost,
      .awaitingAgent:
      break
    }
  }

  /// Performs all steps that are possible now while the topology starts, runs, changes or stops.
  private mutating func advance(at now: Instant, into actions: inout [Action]) {
    updateMetConditions()
    if case .changing = state {
      failIfRequiredNodeFailed(into: &actions)
      advanceChange(at: now, into: &actions)
    }
    switch state {
    case .starting:
      failIfRequiredNodeFailed(into: &actions)
      if case .starting = state { startObservers(at: now, into: &actions) }
      if case .starting = state, members.allSatisfy({ $0.isObserver || isPastStart($0.name) }) {
        state = .running
        let ready = members.count { nodes[$0.name]?.state == .ready }
        if ready > 0 { actions.append(.report(.allReady(nodes: ready))) }
      }
    case .running: failIfRequiredNodeFailed(into: &actions)
    case .idle, .changing, .stopping, .finished: break
    }
    switch state {
    case .running: advanceRunning(at: now, into: &actions)
    case .stopping: stopNextWaves(at: now, into: &actions)
    case .idle, .starting, .changing, .finished: break
    }
  }

  /// Starts the observers. Observers do not wait for the barrier, so that they see how the other
  /// nodes enter their initial states.
  mutating func startObservers(at now: Instant, into actions: inout [Action]) {
    for member in members where member.isObserver && nodes[member.name]?.state == .ready {
      pass(.startBarrierOpened, to: member.name, at: now, into: &actions)
    }
  }

  /// Whether the start barrier can open without waiting for this node.
  private func isPastStart(_ name: String) -> Bool {
    guard let state = nodes[name]?.state else { return true }
    if state == .awaitingCarrier { return carrier(of: name).map(hasEnded) ?? true }
    return state == .ready || state == .running || state.hasEnded
  }

  private mutating func failIfRequiredNodeFailed(into actions: inout [Action]) {
    for member in members where member.isRequired {
      guard case .failed(let reason)? = nodes[member.name]?.state else { continue }
      let text = "required node '\(member.name)' failed: \(reason)"
      beginStopping(Outcome(exitCode: 1, reason: text), into: &actions)
      return
    }
  }

  /// Sends the start command to nodes that are ready and whose dependencies are met.
  mutating func startReadyNodes(at now: Instant, into actions: inout [Action]) {
    for wave in plan.waves {
      for name in wave where nodes[name]?.state == .ready && canRun(name) {
        pass(.startBarrierOpened, to: name, at: now, into: &actions)
      }
    }
    findBlockers(into: &actions)
  }

  private mutating func advanceRunning(at now: Instant, into actions: inout [Action]) {
    startReadyNodes(at: now, into: &actions)
    reportStart(into: &actions)
    // A node that was stopped on request can be started on request, so the topology continues.
    let observed = members.filter { !$0.isObserver }
    let subjects = observed.isEmpty ? members : observed
    guard subjects.allSatisfy({ isFinished($0.name) }) else { return }
    let failed = failedNodes.filter { failed in subjects.contains { $0.name == failed.node } }
    let waiting = subjects.compactMap { blockers[$0.name] }.filter { !$0.isCarrier }
    let outcome =
      if waiting.contains(where: { $0.reason == .completed }) {
        Outcome(
          exitCode: 1, reason: "all nodes have ended, or wait for a state of a node that has ended")
      } else if !waiting.isEmpty {
        Outcome(exitCode: 1, reason: "every node has ended, or is waiting for a failed node")
      } else if failed.count == subjects.count {
        Outcome(exitCode: 1, reason: "all nodes have failed")
      } else if let failure = Self.failureText(failed) {
        Outcome(exitCode: 1, reason: "all nodes have ended; \(failure)")
      } else {
        Outcome(exitCode: 0, reason: "all nodes have ended")
      }
    if members.allSatisfy({ hasEnded($0.name) }) {
      finish(outcome, into: &actions)
    } else {
      beginStopping(outcome, into: &actions)
      stopNextWaves(at: now, into: &actions)
    }
  }

  /// Reports the result of the start once, as soon as no node is starting any more.
  private mutating func reportStart(into actions: inout [Action]) {
    guard !hasReportedRunning else { return }
    var started = TopologyReport.StartCounts()
    for member in members {
      switch nodes[member.name]?.state {
      case .running: started.running += 1
      case .stopped(.completed): started.completed += 1
      case .failed: started.failed += 1
      case .idle, .stopped(.requested): started.stopped += 1
      case .ready where blockers[member.name] != nil,
        .awaitingCarrier where blockers[member.name] != nil:
        started.waiting += 1
      case .awaitingCarrier, .adopting, .starting, .configuring, .ready, .lost, .stopping,
        .backingOff:
        return
      case nil: break
      }
    }
    hasReportedRunning = true
    // If no node is running or waiting, the run is about to end and reports the reason itself.
    if started.running + started.waiting > 0 { actions.append(.report(.running(started))) }
  }

  private mutating func findBlockers(into actions: inout [Action]) {
    let known = blockers.merging(pendingDependencies) { blocker, _ in blocker }
    blockers = [:]
    pendingDependencies = [:]
    for wave in plan.waves {
      for name in wave where nodes[name]?.state == .ready {
        blockers[name] = blocker(of: name)
        if blockers[name] == nil { pendingDependencies[name] = pendingDependency(of: name) }
        guard let found = blockers[name] ?? pendingDependencies[name], found != known[name] else {
          continue
        }
        actions.append(.node(name, .report(.waiting(found))))
      }
    }
    for member in members where nodes[member.name]?.state == .awaitingCarrier {
      guard let found = carrierBlocker(of: member.name) else { continue }
      blockers[member.name] = found
      guard found != known[member.name] else { continue }
      actions.append(.node(member.name, .report(.waiting(found))))
    }
  }

  private func blocker(of name: String) -> NodeReport.Blocker? {
    dependencies(of: name).lazy.compactMap { blocker($0, of: name) }.first
  }

  /// Returns the reason why a node cannot run without a request: its dependency is not running, or
  /// has not been in the required state, and only a request can change that. Returns `nil` if the
  /// dependency is met, or may still be met without a request.
  private func blocker(
    _ dependency: NodeDependency, of dependent: String
  ) -> NodeReport.Blocker? {
    let name = dependency.node
    let state = unmetState(dependency, of: dependent)
    return switch nodes[name]?.state {
    case .failed: .init(name, .failed, state: state)
    case .idle, .stopped(.requested): .init(name, .stopped, state: state)
    case .stopped(.completed) where state != nil: .init(name, .completed, state: state)
    case .ready where blockers[name] != nil: .init(name, .waiting, state: state)
    case .awaitingCarrier, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping,
      .backingOff, .stopped(.completed), nil:
      nil
    }
  }

  func dependencies(of name: String) -> [NodeDependency] {
    members.first { $0.name == name }?.dependencies ?? []
  }

  /// Whether the node has ended for a reason other than a request. If another node keeps this node
  /// from running, checks that other node instead.
  private func isFinished(_ name: String) -> Bool {
    if let blocker = blockers[name] { return isFinished(blocker.node) }
    guard let state = nodes[name]?.state else { return true }
    return state.hasEnded && state != .stopped(.requested)
  }

  private func canRun(_ name: String) -> Bool {
    dependencies(of: name).allSatisfy { dependency in
      switch nodes[dependency.node]?.state {
      case .running, .stopped(.completed): unmetState(dependency, of: name) == nil
      case nil: true
      case .idle, .awaitingCarrier, .adopting, .starting, .configuring, .ready, .lost, .stopping,
        .backingOff, .stopped(.requested), .failed:
        false
      }
    }
  }

  private mutating func stopNextWaves(at now: Instant, into actions: inout [Action]) {
    for member in members {
      // No node starts again while the topology is stopping.
      switch nodes[member.name]?.state {
      case .backingOff, .awaitingCarrier:
        pass(.stopRequested, to: member.name, at: now, into: &actions)
      case .idle, .adopting, .starting, .configuring, .ready, .running, .lost, .stopping, .stopped,
        .failed, nil:
        break
      }
    }
    while case .stopping(let outcome, let wave) = state {
      let waves = plan.stopWaves
      guard wave < waves.count else { return finish(outcome, into: &actions) }
      for name in waves[wave] { stopIfRunning(name, at: now, into: &actions) }
      guard waves[wave].allSatisfy(hasEnded) else { return }
      state = .stopping(outcome, wave: wave + 1)
    }
  }

  mutating func stopIfRunning(_ name: String, at now: Instant, into actions: inout [Action]) {
    guard let state = nodes[name]?.state, !state.hasEnded else { return }
    if case .stopping(let stopping) = state, stopping.purpose == .requested { return }
    pass(.stopRequested, to: name, at: now, into: &actions)
  }

  private mutating func finish(_ planned: Outcome, into actions: inout [Action]) {
    var outcome = planned
    if outcome.exitCode == 0, let first = stopFailures.first {
      let others = stopFailures.count - 1
      outcome = Outcome(
        exitCode: 1,
        reason: "node '\(first.node)' \(NodeReport.ungracefulStop(reason: first.reason))"
          + (others == 0
            ? ""
            : "; \(others) other node\(others == 1 ? "" : "s") did not stop gracefully either"))
    }
    state = .finished(outcome)
    actions.append(.report(.finished(outcome)))
    actions.append(.finished(outcome))
  }
}
