import PipeSupport

/// Changes of a running topology. The topology can stop some nodes gracefully, in waves, while the
/// other nodes continue. To apply a changed topology file, the topology first stops the removed and
/// replaced nodes in this way. Then the new members take effect, and the added and replaced nodes
/// start.
extension TopologyLifecycle {
  /// The changes that a new topology file makes to a running topology.
  package struct Change: Hashable, Sendable {
    /// All members of the topology according to the new file.
    package var members: [Member]
    /// The existing members whose next process differs from their last process. A replaced member
    /// starts again if it is running or has ended by itself, and stays stopped if it was stopped on
    /// request.
    package var replacedMembers: Set<String>
    /// For each added member, the highest incarnation so far.
    package var incarnations: [String: Int]
    /// The seed for the jitter of the pauses before restarts of the added members.
    package var seed: UInt64
    /// The current shards of the nodes whose number of shards changes. The shards end before all
    /// other members, so that they can still deliver their events. When all stopping members have
    /// ended, the instances of the shards are moved.
    package var shards: Set<String>
    /// The former names of renamed members, by their new names. A renamed member stays stopped if it
    /// was stopped on request under its former name.
    package var formerNames: [String: String]
    /// Whether the change moves instances, changes names or deletes states in journals. The journals are changed
    /// when all stopping members have ended.
    package var changesJournals: Bool

    package init(
      members: [Member], replaced: Set<String>, incarnations: [String: Int] = [:],
      seed: UInt64 = 0, shards: Set<String> = [], formerNames: [String: String] = [:],
      changesJournals: Bool = false
    ) {
      self.formerNames = formerNames
      self.changesJournals = changesJournals || !shards.isEmpty
      self.shards = shards
      self.members = members
      self.replacedMembers = replaced
      self.incarnations = incarnations
      self.seed = seed
    }
  }

  /// The progress of a change, or of stopping some nodes.
  package struct ChangeProgress: Hashable, Sendable {
    /// The change to apply after the stopping nodes have ended; `nil` if the nodes only stop.
    package var change: Change?
    /// The nodes that stop. Each wave stops after the waves before it.
    package var stopWaves: [[String]]
    package var currentWave: Int
    /// The replaced nodes that are started again.
    package var returningNodes: Set<String>
    /// Whether the start barrier of the topology was already open when the change began.
    package var isBarrierOpen: Bool
    /// The stopping nodes that were not already stopped on request. They start again if the change
    /// is refused.
    package var runningNodes: Set<String> = []
    /// Whether instances are being moved, or states are being deleted, in journals.
    package var isChangingJournals = false

    func isEnding(_ name: String) -> Bool { stopWaves.contains { $0.contains(name) } }
  }

  /// Whether a node stops only because of a change, and starts again when the change takes effect.
  package func isReturning(_ name: String) -> Bool {
    guard case .changing(let changing) = state else { return false }
    return changing.returningNodes.contains(name)
  }

  /// Starts a change.
  /// - Returns: `false` if the topology cannot be changed now. Then the change is not started.
  mutating func change(_ change: Change, into actions: inout [Action]) -> Bool {
    let kept = Set(change.members.map(\.name))
    let ending = members.map(\.name).filter {
      !kept.contains($0) || change.replacedMembers.contains($0)
    }
    guard end(ending, andThen: change) else { return false }
    actions.append(.report(.changing))
    return true
  }

  /// Begins to stop nodes gracefully. If `change` is given, the change is applied when these nodes
  /// have ended.
  /// - Returns: `false` if nodes cannot be stopped now. Then no node is stopped.
  mutating func end(_ names: [String], andThen change: Change?) -> Bool {
    let isBarrierOpen: Bool
    switch state {
    case .starting: isBarrierOpen = false
    case .running: isBarrierOpen = true
    case .idle, .changing, .stopping, .finished: return false
    }
    let ending = members.filter { names.contains($0.name) && !hasEnded($0.name) }
    let shards = ending.filter { change?.shards.contains($0.name) == true }
    let others = ending.filter { change?.shards.contains($0.name) != true }
    let waves =
      (shards.isEmpty ? [] : [shards.map(\.name)])
      + StartPlan(others, endsSendersFirst: true).stopWaves
    state = .changing(
      ChangeProgress(
        change: change, stopWaves: waves, currentWave: 0,
        returningNodes: (change?.replacedMembers ?? []).filter {
          nodes[$0]?.state.isStoppedOnRequest == false
        },
        isBarrierOpen: isBarrierOpen,
        runningNodes: Set(names.filter { nodes[$0]?.state.isStoppedOnRequest == false })))
    return true
  }

  func hasEnded(_ name: String) -> Bool { nodes[name]?.state.hasEnded ?? true }

  /// Performs all steps of a change that are possible now. Nodes that the change does not stop
  /// continue to run.
  mutating func advanceChange(at now: Instant, into actions: inout [Action]) {
    guard case .changing(let changing) = state else { return }
    if changing.isBarrierOpen {
      startReadyNodes(at: now, into: &actions)
    } else {
      startObservers(at: now, into: &actions)
    }
    while case .changing(var changing) = state {
      guard changing.currentWave < changing.stopWaves.count else {
        if changing.change?.changesJournals == true {
          guard !changing.isChangingJournals else { return }
          changing.isChangingJournals = true
          state = .changing(changing)
          actions.append(.moveInstances)
          return
        }
        state = changing.isBarrierOpen ? .running : .starting
        if let change = changing.change {
          switchOver(to: change, changing, at: now, into: &actions)
        }
        return
      }
      let wave = changing.stopWaves[changing.currentWave]
      for name in wave { stopIfRunning(name, at: now, into: &actions) }
      guard wave.allSatisfy(hasEnded) else { return }
      changing.currentWave += 1
      state = .changing(changing)
    }
  }

  /// Completes or gives up a change, after the attempt to change the journals has ended.
  mutating func finishMove(_ outcome: MoveOutcome, at now: Instant, into actions: inout [Action]) {
    guard case .changing(let changing) = state, changing.isChangingJournals,
      let change = changing.change
    else { return }
    state = changing.isBarrierOpen ? .running : .starting
    var former = changing
    let problem: String
    switch outcome {
    case .complete: return switchOver(to: change, changing, at: now, into: &actions)
    case .refused(let reason):
      former.returningNodes = changing.runningNodes
      problem = "\(reason); nothing was changed, and the nodes start again as before"
    case .incomplete(let reason):
      former.returningNodes = []
      problem =
        "the journals could not be changed: \(reason); the stopped nodes stay stopped; correct the "
        + "problem, and complete the change with 'orchestrator down' and 'orchestrator up FILE'"
    }
    switchOver(
      to: Change(members: members, replaced: former.returningNodes, seed: change.seed), former,
      at: now,
      into: &actions)
    changeProblem = problem
  }

  private mutating func switchOver(
    to change: Change, _ changing: ChangeProgress, at now: Instant, into actions: inout [Action]
  ) {
    changeFailures = changing.stopWaves.joined().compactMap { name in
      nodes[name]?.stopFailure.map { (node: name, reason: $0) }
    }
    endedChangeCount += 1
    changeProblem = nil
    members = change.members
    plan = StartPlan(members)
    let kept = Set(members.map(\.name))
    let formerNodes = nodes
    nodes = nodes.filter { kept.contains($0.key) }
    blockers = blockers.filter { kept.contains($0.key) }
    pendingDependencies = pendingDependencies.filter { kept.contains($0.key) }
    metConditions = metConditions.filter { kept.contains($0.key) }
    heldInputs = heldInputs.filter { kept.contains($0.key) }
    var seeds = SplitMix64(seed: change.seed)
    var starting: [String] = []
    var held: [String] = []
    for member in members {
      let name = member.name
      if nodes[name] == nil {
        let former = change.formerNames[name].flatMap { former in
          formerNodes[former].map { (name: former, incarnation: $0.incarnation) }
        }
        // A node may have been restarted under its former name after the change was requested.
        nodes[name] = NodeLifecycle(
          restart: member.restart, timeouts: member.timeouts, stopSignal: member.stopSignal,
          incarnation: max(change.incarnations[name] ?? 0, former?.incarnation ?? 0),
          seed: seeds.next(), isEmbedded: member.carrier != nil, isRemote: member.isRemote)
        if let former, !changing.runningNodes.contains(former.name) {
          held.append(name)
        } else {
          starting.append(name)
        }
      } else {
        nodes[name]?.applySettings(
          restart: member.restart, timeouts: member.timeouts, stopSignal: member.stopSignal,
          isReplaced: change.replacedMembers.contains(name), isEmbedded: member.carrier != nil,
          isRemote: member.isRemote)
        if changing.returningNodes.contains(name) { starting.append(name) }
      }
    }
    for member in members {
      guard let host = member.carrier else { continue }
      let isOpen = nodes[host]?.state.canCarryEmbeddedNodes == true
      nodes[member.name]?.hasCarrier = isOpen
    }
    hasReportedRunning = false
    actions.append(.switchedOver)
    for name in held { pass(.stopRequested, to: name, at: now, into: &actions) }
    for name in starting { pass(.start, to: name, at: now, into: &actions) }
  }
}
