import PipeClient
import PipeJournal
import PipeMachines
import PipeSystem
import PipeTransport
import PipeWire

/// The progress of moving nodes to new programs, one node after the other.
struct ProgramUpgrades {
  /// The upgrade of a single node.
  struct Step {
    enum Phase {
      /// The node stops, its journal is copied, and it starts with the new program.
      case upgrading
      /// The node is ready on the new program.
      case committed
      /// The node stops, its journal is restored, and it starts with the former program.
      case rollingBack(reason: String)
    }

    let node: String
    let record: UpgradeRecord
    let former: PinnedProgram
    let next: PinnedProgram
    let formerDescription: MachineDescription?
    var phase = Phase.upgrading
  }

  /// The nodes, in the order of their upgrades.
  private(set) var pending: [String]
  /// The node after which the upgrade pauses.
  let pauseNode: String?
  var step: Step?
  /// The answer to the client; `nil` while nodes are being moved.
  private(set) var answer: ControlAnswer?
  /// Returns the answer about the other changes of the topology file, which are applied before the
  /// upgrades; `nil` while the outcome is not known.
  let otherChanges: WaitingClients.Condition
  /// Whether the upgrades have begun: the other changes of the topology file are complete.
  var isUnderway = false

  init(
    _ nodes: [String], pausingAfter pauseNode: String?,
    otherChanges: @escaping WaitingClients.Condition
  ) {
    pending = nodes
    self.pauseNode = pauseNode
    self.otherChanges = otherChanges
  }

  mutating func takeNext() -> String? { pending.isEmpty ? nil : pending.removeFirst() }

  mutating func finish(_ answer: ControlAnswer) {
    self.answer = answer
    step = nil
  }

  /// A text about the nodes that keep their programs.
  var remainder: String {
    pending.isEmpty
      ? "" : "; not upgraded: " + pending.map { "'\($0)'" }.joined(separator: ", ")
  }
}

extension Supervisor {
  /// Whether nodes are being moved to new programs.
  var isUpgrading: Bool { upgrades != nil && upgrades?.answer == nil }

  /// Returns the nodes for which a new program is the only change in a plan, in the order of their
  /// upgrades. A node is upgraded after the nodes that it depends on and, where possible, after the
  /// receivers of its events. Then no receiver gets events of a later version.
  ///
  /// A carrier node is not upgraded in this way: its coordinators may take steps before the carrier
  /// node is ready.
  func upgradedNodes(in step: PendingPlan) -> [String] {
    var names: Set<String> = []
    for node in step.plan.nodes {
      guard step.change.isUpgrade(node.name), node.placement == .local,
        !node.supervision.isObserver, programs[node.name] != nil,
        !step.losses.covers(node.name), !step.plan.nodes.contains(where: { $0.host == node.name })
      else { continue }
      names.insert(node.name)
    }
    let order = StartPlan(step.plan.nodes.map(\.supervision), endsSendersFirst: true).waves.joined()
    return order.filter(names.contains)
  }

  /// Continues with the next step when the last step is complete.
  func advanceUpgrades() {
    while let current = upgrades, current.answer == nil {
      guard current.isUnderway else {
        guard let answer = current.otherChanges(lifecycle) else { return }
        if answer == .done, !current.pending.isEmpty {
          upgrades?.isUnderway = true
        } else {
          upgrades?.finish(answer)
        }
        continue
      }
      switch lifecycle.state {
      case .idle, .starting, .changing: return
      case .stopping, .finished:
        upgrades?.finish(.failed("the topology is stopping" + current.remainder))
        return
      case .running: break
      }
      guard let step = current.step else {
        beginNextUpgrade()
        continue
      }
      guard let outcome = outcome(of: step) else { return }
      switch outcome {
      case .success:
        upgrades?.step = nil
        if current.pauseNode == step.node, !current.pending.isEmpty {
          upgrades?.finish(.affected(nodes: current.pending))
        }
      case .failure(let error):
        guard case .upgrading = step.phase else {
          upgrades?.finish(.failed(error.reason + current.remainder))
          return
        }
        guard lifecycle.changeProblem == nil else {
          // The journal could not be copied, and the node has started again with its program.
          endUpgrade()
          upgrades?.finish(
            .failed("node '\(step.node)' keeps its program: \(error.reason)" + current.remainder))
          return
        }
        upgrades?.step?.phase = .rollingBack(reason: error.reason)
        replaceProcess(of: step.node)
      }
    }
  }

  private struct UpgradeError: Error { let reason: String }

  /// Returns the outcome of a step; `nil` while the outcome is not known.
  private func outcome(of step: ProgramUpgrades.Step) -> Result<Void, UpgradeError>? {
    guard let node = lifecycle[step.node] else { return .success(()) }
    switch step.phase {
    case .upgrading:
      if let problem = lifecycle.changeProblem {
        return .failure(UpgradeError(reason: problem))
      }
      switch node.state {
      case .failed(let reason): return .failure(UpgradeError(reason: reason))
      case .backingOff, .stopped:
        return .failure(UpgradeError(reason: facts[step.node]?.reason ?? node.state.name))
      case .idle, .awaitingCarrier, .adopting, .starting, .configuring, .ready, .running, .lost,
        .stopping:
        return nil
      }
    case .committed:
      let isWaiting =
        lifecycle.blockers[step.node] != nil || lifecycle.pendingDependencies[step.node] != nil
      switch node.state {
      case .running, .stopped, .backingOff: return .success(())
      case .ready where isWaiting: return .success(())
      case .failed(let reason):
        return .failure(
          UpgradeError(reason: "node '\(step.node)' failed on the new program: \(reason)"))
      case .idle, .awaitingCarrier, .adopting, .starting, .configuring, .ready, .lost, .stopping:
        return nil
      }
    case .rollingBack(let reason):
      let log = directories.logs + "/" + step.node + ".log"
      let text =
        "node '\(step.node)' did not become ready on the new program: \(reason); check 'orchestrator "
        + "logs \(step.node)' (\(log))"
      if let problem = lifecycle.changeProblem {
        return .failure(UpgradeError(reason: "\(text); \(problem)"))
      }
      switch node.state {
      case .running, .ready:
        return .failure(
          UpgradeError(
            reason: text + "; the node runs the former program again, and its journal is restored")
        )
      case .failed(let problem):
        return .failure(
          UpgradeError(reason: "\(text); the former program failed, too: \(problem)"))
      case .stopped: return .failure(UpgradeError(reason: text))
      case .idle, .awaitingCarrier, .adopting, .starting, .configuring, .lost, .stopping,
        .backingOff:
        return nil
      }
    }
  }

  private func beginNextUpgrade() {
    guard let name = upgrades?.takeNext() else {
      upgrades?.finish(.done)
      return
    }
    // A node that has ended meanwhile starts with the new program when it is next started.
    guard let node = plan[name], let launch = facts[name]?.launch, let former = programs[name],
      lifecycle[name]?.state.hasProcess == true
    else {
      programs.release(name)
      facts[name]?.take(changed: plan[name]?.description, isReplaced: true)
      return
    }
    let record = UpgradeRecord(
      node: name, journal: node.information.journal, former: launch)
    let next: PinnedProgram
    do {
      // The new program is copied before the node stops. If the copy fails, the node continues to
      // run.
      next = try programs.retain(node.information.program, and: former)
      try record.write(in: directories)
    } catch {
      programs.endRetention()
      let remainder = upgrades?.remainder ?? ""
      upgrades?.finish(.failed("node '\(name)' keeps its program: \(error)\(remainder)"))
      return
    }
    Failpoint.hit(.upgradeRecorded)
    upgrades?.step = ProgramUpgrades.Step(
      node: name, record: record, former: former, next: next,
      formerDescription: facts[name]?.description)
    replaceProcess(of: name)
  }

  /// Stops a node, copies or restores its journal, selects the program, and starts the node again.
  private func replaceProcess(of name: String) {
    let seed = UInt64.random(in: .min ... .max)
    handle(
      .change(
        .init(
          members: plan.nodes.map(\.supervision), replaced: [name], seed: seed,
          changesJournals: true)))
  }

  /// Copies or restores the journals of the node that is being upgraded, while the node is stopped.
  /// - Returns: `false` if no node is being upgraded.
  func changeUpgradedJournals() -> Bool {
    guard let step = upgrades?.step else { return false }
    let owner = LoopOwned(self)
    let handle = loop.handle
    let directories = directories
    let isRollingBack = if case .rollingBack = step.phase { true } else { false }
    loader.handle.post {
      var outcome = TopologyLifecycle.MoveOutcome.complete
      do {
        let copy = UpgradeRecord.copy(in: directories)
        if isRollingBack {
          if copy.exists { try copy.restore(step.record.journals) }
          Failpoint.hit(.upgradeRestored)
        } else {
          try copy.make(of: step.record.journals)
          Failpoint.hit(.upgradeCopied)
        }
      } catch {
        outcome =
          isRollingBack
          ? .incomplete("the journal cannot be restored: \(error)")
          : .refused("the journal cannot be copied: \(error)")
      }
      handle.post { [outcome] in owner.value.handle(.moved(outcome)) }
    }
    return true
  }

  /// Selects the program of the node that is being upgraded, when its former process has ended.
  func switchUpgradedProgram() {
    guard let step = upgrades?.step else { return }
    switch step.phase {
    case .upgrading:
      guard lifecycle.changeProblem == nil else { return }
      programs.pin(step.next, of: step.node)
      Failpoint.hit(.upgradeSwitched)
      facts[step.node]?.take(changed: plan[step.node]?.description, isReplaced: true)
    case .rollingBack:
      programs.pin(step.former, of: step.node)
      facts[step.node]?.take(changed: step.formerDescription, isReplaced: true)
      endUpgrade()
    case .committed: break
    }
  }

  /// Makes the new program of a node permanent. Called when the node is ready and has not taken a
  /// step yet.
  func commitUpgrade(of name: String) {
    guard let step = upgrades?.step, step.node == name, case .upgrading = step.phase else { return }
    Failpoint.hit(.upgradeReady)
    upgrades?.step?.phase = .committed
    endUpgrade()
  }

  private func endUpgrade() {
    UpgradeRecord.end(in: directories)
    programs.endRetention()
    programs.removeUnused()
  }
}

extension TopologyChange {
  /// Whether the only change of a node is a new program.
  fileprivate func isUpgrade(_ name: String) -> Bool {
    entries.contains { $0.node == name && $0.fate == .restarts(.launch(.build)) }
  }
}
