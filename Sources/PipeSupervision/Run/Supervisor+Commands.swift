import PipeClient
import PipeJournal
import PipeMachines
import PipeSystem
import PipeTopology
import PipeTransport
import PipeWire

/// Commands of clients.
extension Supervisor {
  func take(command body: [UInt8], from asker: Requester) {
    guard let command = try? JSONRecord.decode(ControlCommand.self, from: body) else {
      return refuse(
        "unknown command; check that the client and the orchestrator have the same version",
        to: asker)
    }
    perform(command, for: asker)
  }

  private func perform(_ command: ControlCommand, for asker: Requester) {
    switch command {
    case .directory(fresh: true): askAll(for: asker)
    case .directory: control.answer(.directory(directory()), to: asker)
    case .describe(let name):
      let node = plan.process(of: name)
      guard check([node], for: asker) else { return }
      guard let description = facts[node]?.description else {
        return refuse("node '\(node)' has not sent its description yet; try again later", to: asker)
      }
      control.answer(.description(description), to: asker)
    case .composites:
      let classes = plan.nodes.compactMap { $0.configuration.plan?.conflictClass }
      control.answer(.composites(classes), to: asker)
    case .bringUp(let nodes, let withDependencies, let waits):
      bringUp(nodes, withDependencies: withDependencies, waits: waits, for: asker)
    case .bringDown(let nodes): bringDown(plan.processes(of: nodes), for: asker)
    case .plan(let request): load(request, for: asker)
    case .apply(let number): apply(number, for: asker)
    case .stop(let nodes): steer(plan.processes(of: nodes), .stopRequested, for: asker)
    case .start(let nodes): steer(plan.processes(of: nodes), .start, for: asker)
    case .restart(let nodes): steer(plan.processes(of: nodes), .restartRequested, for: asker)
    case .kill(let node, let number):
      kill(plan.process(of: node), with: Signal(number: number), for: asker)
    case .down:
      control.answer(.done, to: asker)
      if !isStopping { requestStop() }
    case .forceDown:
      control.answer(.done, to: asker)
      if !isStopping { requestStop() }
      requestStop()
    case .outcome:
      waiting.appendUntilEnd(asker)
      answerWaiting()
    case .logs(let request): readLogs(request, for: asker)
    case .letters(let node, let id):
      readJournal(of: node, for: asker) { path in
        do {
          return .letters(try DeadLetterPage(of: node, journal: path, after: id))
        } catch JournalError.missing {
          return .letters(DeadLetterPage(letters: [], hasMore: false, lost: 0))
        }
      }
    case .journal(let node, let limit):
      readJournal(of: node, for: asker) { path in
        try .journal(ofJournal: path, of: node, limit: limit)
      }
    }
  }

  /// Answers a client as soon as the answer is known.
  private func wait(for asker: Requester, until condition: @escaping WaitingClients.Condition) {
    waiting.append(asker, until: condition)
    answerWaiting()
  }

  private func refuse(_ reason: String, to asker: Requester) {
    control.answer(.failed(reason), to: asker)
  }

  private func check(_ nodes: [String], for asker: Requester) -> Bool {
    guard let unknown = nodes.first(where: { facts[$0] == nil }) else { return true }
    let known = plan.nodes.map { "'\($0.name)'" }.joined(separator: ", ")
    refuse("no such node '\(unknown)'; the nodes are \(known)", to: asker)
    return false
  }

  private func checkMayChange(for asker: Requester) -> Bool {
    guard let obstacle = lifecycle.obstacleToChange(of: plan.topology) else { return true }
    refuse(obstacle, to: asker)
    return false
  }

  private func kill(_ node: String, with signal: Signal, for asker: Requester) {
    guard check([node], for: asker) else { return }
    guard let process = processes[node] else {
      return refuse("node '\(node)' has no process", to: asker)
    }
    guard process.signal(signal) else {
      return refuse("cannot send signal \(signal.number) to node '\(node)'", to: asker)
    }
    control.answer(.done, to: asker)
  }

  // MARK: Nodes

  /// Hands an input to nodes and answers when all of them have reached the requested state or failed.
  /// - Parameter answer: The answer if all nodes succeed.
  private func steer(
    _ nodes: [String], _ input: NodeLifecycle.Input, for asker: Requester,
    answer: ControlAnswer = .done
  ) {
    guard check(nodes, for: asker) else { return }
    if case .changing = lifecycle.state {
      return refuse(TopologyLifecycle.changeUnderWay, to: asker)
    }
    let steering = Steering(nodes, input, in: lifecycle)
    // The outcome is judged only after the input was handled: a node that had failed may start now.
    for node in nodes { hand(input, to: node) }
    wait(for: asker) { steering.answer(in: $0, answer) }
  }

  /// Hands an input to a node. A requested start uses the current program file.
  private func hand(_ input: NodeLifecycle.Input, to node: String) {
    let isStart = input == .start && lifecycle[node]?.state.hasProcess == false
    if isStart || input == .restartRequested { programs.release(node) }
    handle(.node(node, input))
  }

  /// Starts nodes and, on request, their dependencies.
  private func bringUp(
    _ names: [String], withDependencies: Bool, waits: Bool, for asker: Requester
  ) {
    let named = names.map(plan.process)
    guard check(named, for: asker), checkMayChange(for: asker) else { return }
    let needed = withDependencies ? plan.processes(neededBy: names) : named
    // A dependency that has completed is not run again.
    let nodes = needed.filter {
      named.contains($0) || lifecycle[$0]?.state != .stopped(.completed)
    }
    if waits { return steer(nodes, .start, for: asker, answer: .steered(nodes: nodes)) }
    for node in nodes { hand(.start, to: node) }
    control.answer(.steered(nodes: nodes), to: asker)
  }

  /// Stops nodes after the nodes that depend on them; all of them stay stopped.
  private func bringDown(_ names: [String], for asker: Requester) {
    guard check(names, for: asker), checkMayChange(for: asker) else { return }
    let nodes = lifecycle.members.dependents(of: names)
    let ending = nodes.filter { lifecycle[$0]?.state.hasEnded == false }
    handle(.end(nodes))
    wait(for: asker) { lifecycle in
      guard ending.allSatisfy(lifecycle.hasEnded) else { return nil }
      return lifecycle.stopProblem(of: ending).map(ControlAnswer.failed) ?? .steered(nodes: nodes)
    }
  }

  // MARK: A new file

  /// Loads a file, which takes seconds, and answers with its changes.
  private func load(_ request: ChangeRequest, for asker: Requester) {
    if let obstacle = deploymentObstacle(to: request) { return refuse(obstacle, to: asker) }
    guard checkMayChange(for: asker) else { return }
    guard request.isDryRun || change.beginLoading() else {
      return refuse(TopologyLifecycle.changeUnderWay, to: asker)
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
      handle.post { owner.value.take(loaded, for: request, from: asker) }
    }
  }

  /// Returns why a file cannot be applied to this run because of its deployment; `nil` if it can.
  private func deploymentObstacle(to request: ChangeRequest) -> String? {
    let way =
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
        + "\(way)"
    }
    if plan.job != nil {
      return
        "topology '\(plan.topology)' runs in a Slurm job, and 'apply' is not supported in Slurm "
        + "jobs yet; \(way)"
    }
    return nil
  }

  /// Returns why the topology cannot change to another deployment; `nil` if it can.
  private func deploymentObstacle(to next: LaunchPlan) -> String? {
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

  private func take(
    _ loaded: Result<LoadedTopology, TopologyErrors>, for request: ChangeRequest,
    from asker: Requester
  ) {
    if !request.isDryRun { change.endLoading() }
    do {
      try show(loaded.get(), for: request, to: asker)
    } catch let errors as TopologyErrors {
      control.answer(.invalid(errors.diagnostics), to: asker)
    } catch {
      refuse("\(error)", to: asker)
    }
  }

  private func show(
    _ loaded: LoadedTopology, for request: ChangeRequest, to asker: Requester
  ) throws {
    let (name, wanted) = (loaded.topology.name, plan.topology)
    guard name == wanted else {
      return refuse(
        "'\(request.file)' describes topology '\(name)', not '\(wanted)'; add '-p \(wanted)' to "
          + "apply the file anyway", to: asker)
    }
    let next = try LaunchPlan(loaded, directories: directories, job: plan.job)
    try next.raiseOpenFileLimit()
    let obstacle = deploymentObstacle(to: next) ?? coordinatorObstacle(to: next)
    let planned = PlannedStep(number: 0, plan: next, change: difference(to: next))
    let fitness = JournalFitness(of: next, after: planned.change)
    if obstacle != nil || fitness.isEmpty {
      return answer(planned, loaded.warnings, obstacle, for: request, to: asker)
    }
    let owner = LoopOwned((self, planned))
    let handle = loop.handle
    loader.handle.post { [warnings = loaded.warnings] in
      let obstacle = fitness.obstacle()
      handle.post {
        owner.value.0.answer(owner.value.1, warnings, obstacle, for: request, to: asker)
      }
    }
  }

  /// Answers with the changes of a file, or with the reason why it cannot be applied now.
  private func answer(
    _ step: PlannedStep, _ warnings: [Diagnostic], _ obstacle: String?, for request: ChangeRequest,
    to asker: Requester
  ) {
    if !request.isDryRun, let obstacle { return refuse(obstacle, to: asker) }
    let number = change.show(step.plan, step.change, isDryRun: request.isDryRun)
    control.answer(
      .planned(
        PlannedChange(
          number: number, change: step.change, warnings: warnings, obstacle: obstacle)),
      to: asker)
  }

  /// Returns why the file cannot be applied now, according to the last statuses of the nodes; `nil` if
  /// it can.
  private func coordinatorObstacle(to next: LaunchPlan) -> String? {
    plan.coordinatorObstacle(to: next) { node, pipe in
      let out = facts[node.name]?.status?.outs.first { $0.name == pipe }
      let unsent = out.map { $0.events - min($0.applied, $0.events) } ?? 0
      // A coordinator acknowledges the report of a step when it receives the report, and handles it later.
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
          node.supervision, launch: launch, watched: node.watched, logs: node.logs,
          opensPipes: facts[node.name]?.opensPipes == true)
      },
      to: next.nodes.map { node in
        .init(
          node.supervision, launch: next.launch(of: node), watched: node.watched, logs: node.logs)
      },
      states: Dictionary(
        plan.nodes.compactMap { node in lifecycle[node.name].map { (node.name, $0.state) } }
      ) { first, _ in first })
  }

  /// Applies the file that was shown under this number, and answers when its new nodes run.
  private func apply(_ number: UInt64, for asker: Requester) {
    guard checkMayChange(for: asker) else { return }
    guard let step = change.ask(for: number, difference(to:)) else {
      return refuse(
        "the topology has changed since the plan was made; apply the file again", to: asker)
    }
    let changes = lifecycle.changes
    handle(
      .change(
        .init(
          members: step.plan.nodes.map(\.supervision), replaced: step.change.replaced,
          incarnations: incarnations.counts, seed: .random(in: .min ... .max))))
    let started = step.change.started
    wait(for: asker) { $0.answer(toChange: changes + 1, starting: started) }
  }
}

/// Files on this host that other processes read: after the run, and from other hosts.
extension Supervisor {
  /// Records the paths of the journals, for tools that read them after the run.
  func tellJournals() {
    let paths = plan.nodes.compactMap { node in node.information.journal.map { (node.name, $0) } }
    do {
      try JournalPaths.write(Dictionary(paths) { first, _ in first }, in: directories)
    } catch {
      reporter.warning("'orchestrator journal' will not find all journals: \(error)")
    }
  }

  /// Answers with lines of logs.
  func readLogs(_ request: LogRequest, for asker: Requester) {
    let directory = directories.logs
    let topology = plan.topology
    answer(asker) {
      let known = LogReader.nodes(in: directory)
      if let unknown = request.nodes?.first(where: { !known.contains($0) }) {
        return .failed(LogReader.unknown(unknown, of: topology, known: known))
      }
      return .logs(LogPager(directory: directory).page(request))
    }
  }

  /// Answers from a node's journal.
  private func readJournal(
    of node: String, for asker: Requester,
    read: @escaping @Sendable (_ path: String) throws -> ControlAnswer
  ) {
    guard let journal = directory().nodes.first(where: { $0.name == node })?.journal else {
      return control.answer(
        .failed("no node '\(node)' with a journal"), to: asker)
    }
    answer(asker) {
      do {
        return try read(journal)
      } catch {
        return .failed("\(error)")
      }
    }
  }

  /// Reads files on another thread and answers, while the loop continues.
  private func answer(_ asker: Requester, with read: @escaping @Sendable () -> ControlAnswer) {
    let owner = LoopOwned((supervisor: self, asker: asker))
    let handle = loop.handle
    loader.handle.post {
      let answer = read()
      handle.post { owner.value.supervisor.control.answer(answer, to: owner.value.asker) }
    }
  }
}

extension ControlAnswer {
  /// The maximum size of a journal in an answer. Unit: bytes. Source: ``WireLimits/messageByteCount``.
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
