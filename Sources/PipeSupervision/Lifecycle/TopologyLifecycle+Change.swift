import PipeSupport

/// Stopping some nodes of a running topology in order, wave after wave, while the others continue; and
/// applying a changed file. To apply a file, the topology first stops the removed and replaced nodes in
/// this way. Then the new members take effect, and the added and replaced nodes start.
extension TopologyLifecycle {
  /// The changes of a new file to a topology.
  package struct Change: Hashable, Sendable {
    /// All members of the new file.
    package var members: [Member]
    /// The existing members whose next process differs from their last one. They are started again if
    /// they run or have ended by themselves. If they were stopped manually, they stay stopped.
    package var replaced: Set<String>
    /// The number of starts so far of each added member.
    package var incarnations: [String: Int]
    /// The seed for the jitter of the pauses before restarts of the added members.
    package var seed: UInt64

    package init(
      members: [Member], replaced: Set<String>, incarnations: [String: Int] = [:],
      seed: UInt64 = 0
    ) {
      self.members = members
      self.replaced = replaced
      self.incarnations = incarnations
      self.seed = seed
    }
  }

  /// The progress of a change, or of stopping some nodes.
  package struct ChangeProgress: Hashable, Sendable {
    /// The change to apply after these nodes have ended; `nil` if they are only stopped.
    package var change: Change?
    /// The nodes that stop, each wave after the waves before it.
    package var waves: [[String]]
    package var wave: Int
    /// The replaced nodes that are started again.
    package var returning: Set<String>
    /// Whether the start barrier of the topology was already open.
    package var isBarrierOpen: Bool

    func ends(_ name: String) -> Bool { waves.contains { $0.contains(name) } }
  }

  /// Whether a node has ended only because of a change, and starts again when the change takes effect.
  package func isReturning(_ name: String) -> Bool {
    guard case .changing(let changing) = state else { return false }
    return changing.returning.contains(name)
  }

  /// Starts a change.
  /// - Returns: Whether the topology can be changed now.
  mutating func change(_ change: Change, into actions: inout [Action]) -> Bool {
    let kept = Set(change.members.map(\.name))
    let ending = members.map(\.name).filter { !kept.contains($0) || change.replaced.contains($0) }
    guard end(ending, andThen: change) else { return false }
    actions.append(.report(.changing))
    return true
  }

  /// Starts to stop nodes in order, and then applies a change if there is one.
  /// - Returns: Whether nodes can be stopped now.
  mutating func end(_ names: [String], andThen change: Change?) -> Bool {
    let isBarrierOpen: Bool
    switch state {
    case .starting: isBarrierOpen = false
    case .running: isBarrierOpen = true
    case .idle, .changing, .stopping, .finished: return false
    }
    let ending = members.filter { names.contains($0.name) && !hasEnded($0.name) }
    state = .changing(
      ChangeProgress(
        change: change, waves: StartPlan(ending, endsSendersFirst: true).stopWaves, wave: 0,
        returning: (change?.replaced ?? []).filter { nodes[$0]?.state.isHeld == false },
        isBarrierOpen: isBarrierOpen))
    return true
  }

  func hasEnded(_ name: String) -> Bool { nodes[name]?.state.hasEnded ?? true }

  /// Takes the steps of a change that have become possible; all other nodes continue.
  mutating func advanceChange(at now: Instant, into actions: inout [Action]) {
    guard case .changing(let changing) = state else { return }
    if changing.isBarrierOpen {
      startReadyNodes(at: now, into: &actions)
    } else {
      startObservers(at: now, into: &actions)
    }
    while case .changing(var changing) = state {
      guard changing.wave < changing.waves.count else {
        state = changing.isBarrierOpen ? .running : .starting
        if let change = changing.change {
          switchOver(to: change, changing, at: now, into: &actions)
        }
        return
      }
      let wave = changing.waves[changing.wave]
      for name in wave { stopIfRunning(name, at: now, into: &actions) }
      guard wave.allSatisfy(hasEnded) else { return }
      changing.wave += 1
      state = .changing(changing)
    }
  }

  private mutating func switchOver(
    to change: Change, _ changing: ChangeProgress, at now: Instant, into actions: inout [Action]
  ) {
    changeFailures = changing.waves.joined().compactMap { name in
      nodes[name]?.stopFailure.map { (node: name, reason: $0) }
    }
    changes += 1
    members = change.members
    plan = StartPlan(members)
    let kept = Set(members.map(\.name))
    nodes = nodes.filter { kept.contains($0.key) }
    blockers = blockers.filter { kept.contains($0.key) }
    pendingDependencies = pendingDependencies.filter { kept.contains($0.key) }
    metConditions = metConditions.filter { kept.contains($0.key) }
    heldInputs = heldInputs.filter { kept.contains($0.key) }
    var seeds = SplitMix64(seed: change.seed)
    var starting: [String] = []
    for member in members {
      let name = member.name
      if nodes[name] == nil {
        nodes[name] = NodeLifecycle(
          restart: member.restart, timeouts: member.timeouts, stopSignal: member.stopSignal,
          incarnation: change.incarnations[name] ?? 0, seed: seeds.next(),
          isEmbedded: member.host != nil,
          isRemote: member.isRemote)
        starting.append(name)
      } else {
        nodes[name]?.supervise(
          restart: member.restart, timeouts: member.timeouts, stopSignal: member.stopSignal,
          isReplaced: change.replaced.contains(name), isEmbedded: member.host != nil,
          isRemote: member.isRemote)
        if changing.returning.contains(name) { starting.append(name) }
      }
    }
    for member in members {
      guard let host = member.host else { continue }
      let isOpen = nodes[host]?.state.canCarryEmbeddedNodes == true
      nodes[member.name]?.hasCarrier = isOpen
    }
    hasReportedRunning = false
    actions.append(.switchedOver)
    for name in starting { pass(.start, to: name, at: now, into: &actions) }
  }
}
