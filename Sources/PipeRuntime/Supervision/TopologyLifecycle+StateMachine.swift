extension TopologyLifecycle {
  /// Takes one input and returns what to do, in order. Actions that were returned before are done
  /// before the next input is handed in.
  package mutating func handle(_ input: Input, at now: Instant) -> [Action] {
    switch input {
    case .start:
      return start(at: now)
    case .node(let name, let input):
      return node(name, input, at: now)
    case .stop(let outcome):
      var actions: [Action] = []
      beginStopping(outcome, into: &actions)
      return actions + advance(at: now)
    case .kill(let outcome):
      return kill(outcome, at: now)
    case .tick:
      var actions: [Action] = []
      for member in members where (nodes[member.name]?.nextDeadline).map({ $0 <= now }) ?? false {
        pass(.tick, to: member.name, at: now, into: &actions)
      }
      return actions.isEmpty ? [] : actions + advance(at: now)
    }
  }

  private mutating func start(at now: Instant) -> [Action] {
    switch state {
    case .idle:
      state = .starting
      var actions: [Action] = [.report(.starting(nodes: members.count))]
      for member in members {
        let input = survivors[member.name].map { NodeLifecycle.Input.adopt($0) } ?? .start
        pass(input, to: member.name, at: now, into: &actions)
      }
      return actions + advance(at: now)
    case .starting, .running, .stopping, .finished:
      return []
    }
  }

  private mutating func node(
    _ name: String, _ input: NodeLifecycle.Input, at now: Instant
  ) -> [Action] {
    switch (state, input) {
    case (.stopping, .start), (.stopping, .adopt), (.stopping, .restartRequested),
      (.stopping, .go), (.finished, _):
      // What goes down is not started again.
      return []
    case (.idle, _), (.starting, _), (.running, _), (.stopping, _):
      var actions: [Action] = []
      pass(input, to: name, at: now, into: &actions)
      // The frequent one, which moves nobody.
      if input == .heartbeat { return actions }
      return actions + advance(at: now)
    }
  }

  private mutating func beginStopping(_ outcome: Outcome, into actions: inout [Action]) {
    switch state {
    case .idle, .starting, .running:
      state = .stopping(outcome, wave: 0)
      actions.append(.report(.stopping(reason: outcome.reason)))
    case .stopping, .finished:
      break
    }
  }

  private mutating func kill(_ outcome: Outcome, at now: Instant) -> [Action] {
    switch state {
    case .finished:
      return []
    case .idle, .starting, .running, .stopping:
      var actions: [Action] = [.report(.stopping(reason: outcome.reason))]
      state = .stopping(outcome, wave: 0)
      for member in members { pass(.killRequested, to: member.name, at: now, into: &actions) }
      return actions + advance(at: now)
    }
  }

  private mutating func pass(
    _ input: NodeLifecycle.Input, to name: String, at now: Instant, into actions: inout [Action]
  ) {
    guard let node = nodes[name]?.handle(input, at: now) else { return }
    for action in node { actions.append(.node(name, action)) }
  }

  /// Takes the steps that have become possible.
  private mutating func advance(at now: Instant) -> [Action] {
    var actions: [Action] = []
    switch state {
    case .idle, .finished:
      return []
    case .starting:
      failIfRequiredNodeFailed(into: &actions)
      if case .starting = state { startObservers(at: now, into: &actions) }
      if case .starting = state, members.allSatisfy({ $0.isObserver || isSettled($0.name) }) {
        state = .running
        let ready = members.count { nodes[$0.name]?.state == .ready }
        if ready > 0 { actions.append(.report(.allReady(nodes: ready))) }
      }
    case .running:
      failIfRequiredNodeFailed(into: &actions)
    case .stopping:
      break
    }
    switch state {
    case .running: goOn(at: now, into: &actions)
    case .stopping: stopNextWaves(at: now, into: &actions)
    case .idle, .starting, .finished: break
    }
    return actions
  }

  /// Observers do not wait for the barrier: they see the initial states being entered.
  private mutating func startObservers(at now: Instant, into actions: inout [Action]) {
    for member in members where member.isObserver && nodes[member.name]?.state == .ready {
      pass(.go, to: member.name, at: now, into: &actions)
    }
  }

  /// Whether the start barrier need not wait for this node.
  private func isSettled(_ name: String) -> Bool {
    guard let state = nodes[name]?.state else { return true }
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

  private mutating func goOn(at now: Instant, into actions: inout [Action]) {
    for wave in plan.waves {
      for name in wave where nodes[name]?.state == .ready && canGo(name) {
        pass(.go, to: name, at: now, into: &actions)
      }
    }
    let states = members.compactMap { nodes[$0.name]?.state }
    if !hasReportedRunning, states.allSatisfy({ $0 == .running || $0.hasEnded }) {
      hasReportedRunning = true
      let count = states.count { $0 == .running }
      if count > 0 { actions.append(.report(.running(nodes: count))) }
    }
    // A node that was stopped by hand can be started by hand, so its topology stays.
    let observed = members.filter { !$0.isObserver }
    let subjects = observed.isEmpty ? members : observed
    guard subjects.allSatisfy({ isOver($0.name) }) else { return }
    let failed = subjects.filter {
      if case .failed? = nodes[$0.name]?.state { true } else { false }
    }
    let outcome =
      failed.isEmpty || failed.count < subjects.count
      ? Outcome(exitCode: 0, reason: "all nodes have ended")
      : Outcome(exitCode: 1, reason: "all nodes have failed")
    if members.allSatisfy({ nodes[$0.name]?.state.hasEnded ?? true }) {
      finish(outcome, into: &actions)
    } else {
      beginStopping(outcome, into: &actions)
      stopNextWaves(at: now, into: &actions)
    }
  }

  private func isOver(_ name: String) -> Bool {
    guard let state = nodes[name]?.state else { return true }
    return state.hasEnded && state != .stopped(.requested)
  }

  private func canGo(_ name: String) -> Bool {
    guard let member = members.first(where: { $0.name == name }) else { return false }
    return member.dependencies.allSatisfy { dependency in
      guard let state = nodes[dependency]?.state else { return true }
      // One that ended was reported; waiting for it would be for ever, and silent.
      return state == .running || state.hasEnded
    }
  }

  private mutating func stopNextWaves(at now: Instant, into actions: inout [Action]) {
    for member in members {
      // Nobody is started again on the way down.
      if case .backingOff? = nodes[member.name]?.state {
        pass(.stopRequested, to: member.name, at: now, into: &actions)
      }
    }
    while case .stopping(let outcome, let wave) = state {
      let waves = plan.stopWaves
      guard wave < waves.count else { return finish(outcome, into: &actions) }
      for name in waves[wave] { stopIfUp(name, at: now, into: &actions) }
      guard waves[wave].allSatisfy({ nodes[$0]?.state.hasEnded ?? true }) else { return }
      state = .stopping(outcome, wave: wave + 1)
    }
  }

  private mutating func stopIfUp(_ name: String, at now: Instant, into actions: inout [Action]) {
    guard let state = nodes[name]?.state, !state.hasEnded else { return }
    if case .stopping(let stopping) = state, stopping.purpose == .requested { return }
    pass(.stopRequested, to: name, at: now, into: &actions)
  }

  private mutating func finish(_ outcome: Outcome, into actions: inout [Action]) {
    state = .finished(outcome)
    actions.append(.report(.finished(outcome)))
    actions.append(.finished(outcome))
  }
}
