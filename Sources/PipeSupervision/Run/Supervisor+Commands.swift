import PipeClient
import PipeJournal
import PipeMachines
import PipeSystem
import PipeTopology
import PipeTransport
import PipeWire

/// Handles commands of clients.
extension Supervisor {
  func handle(command body: [UInt8], from requester: Requester) {
    guard let command = try? JSONRecord.decode(ControlCommand.self, from: body) else {
      return refuse(
        "unknown command; check that the client and the orchestrator have the same version",
        to: requester)
    }
    perform(command, for: requester)
  }

  private func perform(_ command: ControlCommand, for requester: Requester) {
    switch command {
    case .directory(fresh: true): requestStatuses(for: requester)
    case .directory: control.answer(.directory(directory()), to: requester)
    case .describe(let name):
      // All shards of a node have the same description.
      let node = plan.processes(of: [name]).first ?? name
      guard checkKnown([node], for: requester) else { return }
      guard let description = facts[node]?.description else {
        return refuse(
          "node '\(node)' has not sent its description yet; try again later", to: requester)
      }
      control.answer(.description(description), to: requester)
    case .composites:
      let classes = plan.nodes.compactMap { $0.configuration.plan?.conflictClass }
      control.answer(.composites(classes), to: requester)
    case .bringUp(let nodes, let withDependencies, let waits):
      bringUp(nodes, withDependencies: withDependencies, waits: waits, for: requester)
    case .bringDown(let nodes): bringDown(plan.processes(of: nodes), for: requester)
    case .plan(let request): load(request, for: requester)
    case .apply(let number): apply(number, for: requester)
    case .stop(let nodes): deliverAndWait(plan.processes(of: nodes), .stopRequested, for: requester)
    case .start(let nodes): deliverAndWait(plan.processes(of: nodes), .start, for: requester)
    case .restart(let nodes):
      deliverAndWait(plan.processes(of: nodes), .restartRequested, for: requester)
    case .kill(let node, let number):
      kill(plan.processes(of: [node]), with: Signal(number: number), for: requester)
    case .down:
      control.answer(.done, to: requester)
      if !isStopping { requestStop() }
    case .forceDown:
      control.answer(.done, to: requester)
      if !isStopping { requestStop() }
      requestStop()
    case .outcome:
      waitingClients.appendUntilEnd(requester)
      answerWaiting()
    case .logs(let request): readLogs(request, for: requester)
    case .deadLetters(let node, let id):
      readJournal(of: node, for: requester) { path in
        do {
          return .deadLetters(try DeadLetterPage(of: node, journal: path, after: id))
        } catch JournalError.missing {
          return .deadLetters(DeadLetterPage(deadLetters: [], hasMore: false, lostCount: 0))
        }
      }
    case .instances(let node, let selection):
      readJournal(of: node, for: requester) { path in
        do {
          return .instances(try InstancePage(of: node, journal: path, selection))
        } catch JournalError.missing {
          return .instances(InstancePage(instances: [], hasMore: false))
        }
      }
    case .backup(let file): backUp(into: file, for: requester)
    case .journal(let node, let limit):
      readJournal(of: node, for: requester) { path in
        try .journal(ofJournal: path, of: node, limit: limit)
      }
    }
  }

  /// Answers a client when the answer is known.
  private func wait(for requester: Requester, until condition: @escaping WaitingClients.Condition) {
    waitingClients.append(requester, until: condition)
    answerWaiting()
  }

  private func refuse(_ reason: String, to requester: Requester) {
    control.answer(.failed(reason), to: requester)
  }

  private func checkKnown(_ nodes: [String], for requester: Requester) -> Bool {
    guard let unknown = nodes.first(where: { facts[$0] == nil }) else { return true }
    let known = plan.nodes.map { "'\($0.name)'" }.joined(separator: ", ")
    refuse("no such node '\(unknown)'; the nodes are \(known)", to: requester)
    return false
  }

  private func checkMayChange(for requester: Requester) -> Bool {
    let obstacle =
      isRenameInterrupted
      ? RenameRefusal.incomplete.description
      : isUpgrading
        ? TopologyLifecycle.changeInProgress : lifecycle.changeBlocker(of: plan.topology)
    guard let obstacle else { return true }
    refuse(obstacle, to: requester)
    return false
  }

  private func kill(_ nodes: [String], with signal: Signal, for requester: Requester) {
    guard checkKnown(nodes, for: requester) else { return }
    for node in nodes {
      guard let process = processes[node] else {
        return refuse("node '\(node)' has no process", to: requester)
      }
      guard process.signal(signal) else {
        return refuse("cannot send signal \(signal.number) to node '\(node)'", to: requester)
      }
    }
    control.answer(.done, to: requester)
  }

  // MARK: Commands for nodes

  /// Passes an input to nodes. Answers when all nodes have reached the requested state, or one node
  /// has failed.
  /// - Parameter answer: The answer if all nodes succeed.
  private func deliverAndWait(
    _ nodes: [String], _ input: NodeLifecycle.Input, for requester: Requester,
    answer: ControlAnswer = .done
  ) {
    guard checkKnown(nodes, for: requester) else { return }
    if case .changing = lifecycle.state {
      return refuse(TopologyLifecycle.changeInProgress, to: requester)
    }
    if isUpgrading { return refuse(TopologyLifecycle.changeInProgress, to: requester) }
    let lifecycleRequest = LifecycleRequest(nodes, input, in: lifecycle)
    // The answer is computed after the input was handled, since a node that had failed may be
    // starting now.
    for node in nodes { deliver(input, to: node) }
    wait(for: requester) { lifecycleRequest.answer(in: $0, answer) }
  }

  /// Passes an input to a node. If a client requests a start or restart, the next process runs the
  /// current program file.
  private func deliver(_ input: NodeLifecycle.Input, to node: String) {
    let isStart = input == .start && lifecycle[node]?.state.hasProcess == false
    if isStart || input == .restartRequested { programs.release(node) }
    handle(.node(node, input))
  }

  /// Starts nodes and, if requested, their dependencies.
  private func bringUp(
    _ names: [String], withDependencies: Bool, waits: Bool, for requester: Requester
  ) {
    let named = names.map(plan.process)
    guard checkKnown(named, for: requester), checkMayChange(for: requester) else { return }
    let needed = withDependencies ? plan.processes(requiredBy: names) : named
    // A dependency that has completed does not run again.
    let nodes = needed.filter {
      named.contains($0) || lifecycle[$0]?.state != .stopped(.completed)
    }
    if waits {
      return deliverAndWait(nodes, .start, for: requester, answer: .affected(nodes: nodes))
    }
    for node in nodes { deliver(.start, to: node) }
    control.answer(.affected(nodes: nodes), to: requester)
  }

  /// Stops nodes and all their dependents. The dependents stop first. All these nodes stay stopped.
  private func bringDown(_ names: [String], for requester: Requester) {
    guard checkKnown(names, for: requester), checkMayChange(for: requester) else { return }
    let nodes = lifecycle.members.dependents(of: names)
    let ending = nodes.filter { lifecycle[$0]?.state.hasEnded == false }
    handle(.stopNodes(nodes))
    wait(for: requester) { lifecycle in
      guard ending.allSatisfy(lifecycle.hasEnded) else { return nil }
      return lifecycle.stopFailure(of: ending).map(ControlAnswer.failed) ?? .affected(nodes: nodes)
    }
  }

  // MARK: Loading and applying a topology file

  /// Loads a topology file, which takes seconds, and answers with the changes that the file makes.
  private func load(_ request: ChangeRequest, for requester: Requester) {
    if let obstacle = deploymentBlocker(to: request) { return refuse(obstacle, to: requester) }
    guard checkMayChange(for: requester) else { return }
    guard request.isDryRun || pendingChange.beginLoading() else {
      return refuse(TopologyLifecycle.changeInProgress, to: requester)
    }
    let name = request.keepsName ? plan.topology : nil
    let deployment = plan.deployment == nil ? nil : request.deployment ?? plan.deploymentFile
    let owner = LoopOwned(self)
    let handle = loop.handle
    loader.handle.post {
      let loaded: Result<LoadedTopology, TopologyErrors>
      do throws(TopologyErrors) {
        loaded = .success(try LoadedTopology.load(for: request, name: name, by: deployment))
      } catch {
        loaded = .failure(error)
      }
      handle.post { owner.value.handleLoaded(loaded, for: request, from: requester) }
    }
  }

  /// Returns the reason why this run, with its deployment, cannot apply a topology file; `nil` if
  /// there is none.
  private func deploymentBlocker(to request: ChangeRequest) -> String? {
    let advice =
      "run 'orchestrator down -p \(plan.topology)', and then 'orchestrator up FILE --deployment "
      + "DEPLOYMENT'"
    if plan.keys != nil {
      return
        "'apply' is not supported for topology '\(plan.topology)', whose nodes are started by "
        + "agents; export the changed files with 'orchestrator export kubernetes', and apply the "
        + "manifests with 'kubectl apply'; the next orchestrator restarts the changed nodes and "
        + "adopts all other nodes"
    }
    if plan.deployment == nil, request.deployment != nil {
      return "topology '\(plan.topology)' runs on one host and cannot change to a deployment; "
        + "\(advice)"
    }
    if plan.job != nil {
      return
        "topology '\(plan.topology)' runs in a Slurm job, and 'apply' is not supported in Slurm "
        + "jobs yet; \(advice)"
    }
    return nil
  }

  /// Returns the reason why the topology cannot change to another deployment; `nil` if there is
  /// none.
  private func deploymentBlocker(to next: LaunchPlan) -> String? {
    if next.deployment?.engine != plan.deployment?.engine {
      return
        "'engine' in the deployment file cannot be changed while the topology is running"
    }
    guard next.address != plan.address else { return nil }
    return
      "'address' in the deployment file cannot be changed from '\(plan.address)' to "
      + "'\(next.address)' while the topology is running; run 'orchestrator down -p "
      + "\(plan.topology)', and then 'orchestrator up'"
  }

  private func handleLoaded(
    _ loaded: Result<LoadedTopology, TopologyErrors>, for request: ChangeRequest,
    from requester: Requester
  ) {
    if !request.isDryRun { pendingChange.endLoading() }
    do {
      try answerWithPlan(loaded.get(), for: request, to: requester)
    } catch let errors as TopologyErrors {
      control.answer(.invalid(errors.diagnostics), to: requester)
    } catch {
      refuse("\(error)", to: requester)
    }
  }

  private func answerWithPlan(
    _ loaded: LoadedTopology, for request: ChangeRequest, to requester: Requester
  ) throws {
    let (name, wanted) = (loaded.topology.name, plan.topology)
    guard name == wanted else {
      return refuse(
        "'\(request.file)' describes topology '\(name)', not '\(wanted)'; add '-p \(wanted)' to "
          + "apply the file anyway", to: requester)
    }
    let next = try plan.replanned(for: loaded, directories: directories)
    try next.raiseOpenFileLimit()
    let renames = try JournalRenames(next, in: directories)
    let accepted = request.acceptedLosses ?? []
    if let unknown = accepted.first(where: { !next.hasNodeOrPipe($0) }) {
      return refuse("--accept-loss: there is no node or pipe '\(unknown)'", to: requester)
    }
    let obstacle = deploymentBlocker(to: next) ?? coordinatorBlocker(to: next)
    var planned = PendingPlan(
      number: 0, plan: next, change: difference(to: next), renames: renames,
      moves: ShardMoves(loaded, next),
      losses: AcceptedLosses([], in: JournalTrial.Report(), of: next))
    if let name = request.pauseNode {
      let node = next.processes(of: [name]).last ?? name
      planned.pauseNode = node
      guard upgradedNodes(in: planned).contains(node) else {
        let reason =
          next[node] == nil
          ? "there is no node '\(name)'" : "the program of node '\(name)' has not changed"
        return refuse("--pause-after: \(reason)", to: requester)
      }
    }
    let trial = JournalTrial(of: next, starting: planned.change.startedNodes)
    if obstacle != nil || trial.isEmpty {
      return answer(
        planned, loaded.warnings, obstacle, JournalTrial.Report(), for: request, to: requester)
    }
    let owner = LoopOwned((self, planned))
    let handle = loop.handle
    loader.handle.post { [warnings = loaded.warnings] in
      let report = trial.report()
      handle.post {
        owner.value.0.answer(owner.value.1, warnings, nil, report, for: request, to: requester)
      }
    }
  }

  /// Answers with the changes that a topology file makes, or with the reason why the file cannot be
  /// applied now.
  /// - Parameter report: The findings in the journals.
  private func answer(
    _ step: PendingPlan, _ warnings: [Diagnostic], _ obstacle: String?,
    _ report: JournalTrial.Report, for request: ChangeRequest, to requester: Requester
  ) {
    let accepted = request.acceptedLosses ?? []
    let lost = report.failures.filter { !AcceptedLosses.accepts($0.acceptingNames, by: accepted) }
    let unusable = report.unusableJournals.first {
      !AcceptedLosses.accepts([$0.node], by: accepted)
    }
    let obstacle =
      obstacle ?? unusable.map { "node '\($0.node)' could not start: \($0.reason)" }
      ?? lost.first.map { Self.obstacle(lost.count, first: $0) }
    if !request.isDryRun, lost.isEmpty, let obstacle { return refuse(obstacle, to: requester) }
    var step = step
    step.losses = AcceptedLosses(accepted, in: report, of: step.plan)
    let number = pendingChange.show(step, isDryRun: request.isDryRun || obstacle != nil)
    control.answer(
      .planned(
        PlannedChange(
          number: number, change: step.change, warnings: warnings, reasonNotApplicable: obstacle,
          failures: lost.isEmpty ? nil : Array(lost.prefix(PlannedChange.failureLimit)),
          renames: step.renames.areNeeded ? step.renames.changes : nil,
          unfinished: unfinishedWork(ofNodesMissingIn: step.plan))),
      to: requester)
  }

  /// Returns the removed nodes whose journals have unfinished work; `nil` if there are none.
  private func unfinishedWork(
    ofNodesMissingIn next: LaunchPlan
  ) -> [PlannedChange.UnfinishedWork]? {
    let counts = next.shardCounts
    let removed = plan.nodes.filter { node in
      next[node.name] == nil && next.nameChanges.members[node.name] == nil
        && node.information.shard.map { counts[$0.node] == nil } != false
    }
    let unfinished = removed.compactMap { node -> PlannedChange.UnfinishedWork? in
      guard let path = node.information.journal,
        let work = try? JournalReader(path, node: node.name).snapshot(limit: 0).pending.parts,
        !work.isEmpty
      else { return nil }
      return .init(node.name, work)
    }
    return unfinished.isEmpty ? nil : unfinished
  }

  private static func obstacle(_ count: Int, first: MigrationFailure) -> String {
    let name = first.pipe ?? first.node
    let values = count == 1 ? "1 stored value" : "\(count) stored values"
    return "the new program cannot read \(values) of the journals; add a migration, or accept the "
      + "loss, as in '--accept-loss \(name)'"
  }

  /// Returns the reason why the topology file with the plan `next` cannot be applied now, according
  /// to the last statuses of the nodes; `nil` if there is none.
  private func coordinatorBlocker(to next: LaunchPlan) -> String? {
    plan.coordinatorBlocker(to: next) { node, pipe in
      let out = facts[node.name]?.status?.outs.first { $0.name == pipe }
      let unsent = out.map { $0.events - min($0.applied, $0.events) } ?? 0
      // A coordinator acknowledges a step report when it receives the report, and handles it later.
      let report = node.configuration.outs.first { $0.name == pipe && $0.steps != nil }
      let received = report.flatMap { facts[$0.receiver]?.status }?.ins.first { $0.name == pipe }
      return unsent + UInt64(received?.waiting ?? 0)
    }
  }

  private func difference(to next: LaunchPlan) -> TopologyChange {
    TopologyChange(
      from: plan.nodes.map { node in
        let launch = facts[node.name]?.launch ?? plan.launch(of: node)
        return .init(
          node.supervision, launch: launch, watched: node.watchedNames, logs: node.logRetention,
          opensPipes: facts[node.name]?.opensPipes == true)
      },
      to: next.nodes.map { node in
        .init(
          node.supervision, launch: next.launch(of: node), watched: node.watchedNames,
          logs: node.logRetention)
      },
      states: Dictionary(
        plan.nodes.compactMap { node in lifecycle[node.name].map { (node.name, $0.state) } }
      ) { first, _ in first })
  }

  /// Applies the plan that was shown with this number. Answers when the change is complete or has
  /// failed.
  private func apply(_ number: UInt64, for requester: Requester) {
    guard checkMayChange(for: requester) else { return }
    guard let step = pendingChange.requestPlan(for: number, difference(to:)) else {
      return refuse(
        "the topology has changed since the plan was made; apply the file again", to: requester)
    }
    let changes = lifecycle.endedChangeCount
    let upgradedNodes = upgradedNodes(in: step)
    let upgraded = Set(upgradedNodes)
    pendingChange.set(upgraded: upgraded)
    let started = step.change.startedNodes.filter { !upgraded.contains($0) }
    upgrades = ProgramUpgrades(upgradedNodes, pausingAfter: step.pauseNode) {
      $0.answer(toChange: changes + 1, starting: started)
    }
    handle(
      .change(
        .init(
          members: step.plan.nodes.map(\.supervision),
          replaced: step.change.replacedNodes.subtracting(upgraded),
          incarnations: incarnations.counts(after: step.plan.nameChanges),
          seed: .random(in: .min ... .max), shards: changedShards(in: step.plan),
          formerNames: formerNames(in: step.plan),
          changesJournals: !step.losses.isEmpty || step.renames.mayBecomeNeeded)))
    wait(for: requester) { [unowned self] _ in upgrades?.answer }
  }

  /// Returns the present name of each process that another plan renames, by its new name.
  private func formerNames(in next: LaunchPlan) -> [String: String] {
    let changed = next.nameChanges.members.filter { plan[$0.key] != nil && plan[$0.value] == nil }
    return Dictionary(changed.map { ($0.value, $0.key) }) { first, _ in first }
  }

  /// Returns the present processes of the nodes that have another number of shards in `next`.
  private func changedShards(in next: LaunchPlan) -> Set<String> {
    let counts = next.shardCounts
    let changed = plan.shardCounts.filter { name, count in counts[name] ?? count != count }
    return Set(plan.processes(of: Array(changed.keys)))
  }

  /// Deletes the states whose loss was accepted, and moves the instances of the nodes whose number
  /// of shards changes. Other nodes continue to run.
  func moveInstances() {
    guard let (renames, moves, losses) = pendingChange.journalChanges else {
      if !changeUpgradedJournals() { handle(.moved(.complete)) }
      return
    }
    let owner = LoopOwned(self)
    let handle = loop.handle
    loader.handle.post {
      var notes: [String] = []
      var outcome = TopologyLifecycle.MoveOutcome.complete
      do {
        try renames.run {
          notes.append($0)
        } afterwards: {
          try losses.run { notes.append($0) }
        }
        try moves.run { notes.append($0) }
      } catch {
        // The instances of one node may have been moved before the move for another node was
        // refused.
        let isUnchanged =
          error is RenameRefusal
          || notes.isEmpty && (error is ShardMoveError || error is ShardPlaceError)
        outcome = isUnchanged ? .refused("\(error)") : .incomplete("\(error)")
      }
      handle.post { [notes, outcome] in owner.value.finishMove(notes, outcome) }
    }
  }

  private func finishMove(_ notes: [String], _ outcome: TopologyLifecycle.MoveOutcome) {
    for note in notes { reporter.report(.moved(note)) }
    if outcome != .complete { _ = pendingChange.takeRequestedPlan() }
    if case .incomplete = outcome { isRenameInterrupted = RenameRecord.exists(in: directories) }
    handle(.moved(outcome))
  }
}

/// Files on this host that other processes read, after the run or from other hosts.
extension Supervisor {
  /// Records the paths of the journals, for programs that read the journals after the run.
  func recordJournalPaths() {
    let paths = plan.nodes.compactMap { node in node.information.journal.map { (node.name, $0) } }
    do {
      try JournalPaths.write(Dictionary(paths) { first, _ in first }, in: directories)
    } catch {
      reporter.warning("'orchestrator journal' will not find all journals: \(error)")
    }
  }

  /// Answers with the requested lines of logs.
  func readLogs(_ request: LogRequest, for requester: Requester) {
    let directory = directories.logs
    let topology = plan.topology
    answer(requester) {
      let known = LogReader.nodesWithLogs(in: directory)
      if let unknown = request.nodes?.first(where: { !known.contains($0) }) {
        return .failed(LogReader.unknownNodeMessage(unknown, of: topology, known: known))
      }
      return .logs(LogPager(directory: directory).page(request))
    }
  }

  /// Reads a node's journal, and answers with the result.
  private func readJournal(
    of node: String, for requester: Requester,
    read: @escaping @Sendable (_ path: String) throws -> ControlAnswer
  ) {
    guard let journal = directory().nodes.first(where: { $0.name == node })?.journal else {
      return control.answer(
        .failed("no node '\(node)' with a journal"), to: requester)
    }
    answer(requester) {
      do {
        return try read(journal)
      } catch {
        return .failed("\(error)")
      }
    }
  }

  /// Reads files on another thread, and answers with the result. The loop continues while the files
  /// are read.
  private func answer(_ requester: Requester, with read: @escaping @Sendable () -> ControlAnswer) {
    let owner = LoopOwned((supervisor: self, requester: requester))
    let handle = loop.handle
    loader.handle.post {
      let answer = read()
      handle.post { owner.value.supervisor.control.answer(answer, to: owner.value.requester) }
    }
  }
}

extension ControlAnswer {
  /// The maximum size of a journal in an answer. Unit: bytes. Source:
  /// ``WireLimits/maximumMessageByteCount``.
  private static let journalByteLimit = 3 << 20

  /// Returns the contents of a journal.
  /// - Parameter limit: The maximum number of records, and of events of each pipe.
  fileprivate static func journal(
    ofJournal path: String, of node: String, limit: Int
  ) throws(JournalError) -> ControlAnswer {
    let snapshot = try JournalReader(path, node: node).snapshot(limit: limit)
    guard let value = try? JSONValue(encoding: snapshot) else {
      return .failed("the journal of node '\(node)' cannot be sent")
    }
    guard value.bytes.count <= journalByteLimit else {
      return .failed(
        "the last \(limit) records of node '\(node)' exceed the limit of \(journalByteLimit >> 20) "
          + "MiB; request fewer records with '-n'")
    }
    return .journal(value)
  }
}
