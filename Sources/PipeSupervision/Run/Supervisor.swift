import CProcess
import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTopology
import PipeTransport
import PipeWire

/// Runs one topology: starts and supervises its nodes, and answers clients. All of this happens on
/// one thread.
///
/// No event passes through the supervisor. ``TopologyLifecycle`` makes the decisions, and the
/// supervisor performs the actions. Commands of clients are in `Supervisor+Commands.swift`, reports
/// of nodes in `Supervisor+Reports.swift`, and periodic checks in `Supervisor+Heartbeats.swift`.
package final class Supervisor {
  /// Receives the progress of a run.
  package protocol Reporter: AnyObject {
    func report(_ report: TopologyReport)
    func report(node: String, _ report: NodeReport)
    /// A line that a node wrote.
    func showLine(node: String, _ stream: LogStream, _ text: String)
    /// A warning that does not concern the lifecycle of a node.
    func warning(_ text: String)
    /// Called periodically if ``Supervisor/sample(every:)`` was called.
    func refresh(_ directory: TopologyDirectory)
    /// Called when a new topology file takes effect, with the retention of the orchestrator's own
    /// log.
    func applyLogRetention(_ retention: LogRetention)
  }

  /// The options of a run.
  package struct Options {
    /// The nodes that do not start together with the others, but only on request.
    package var heldNodes: Set<String> = []
    /// The processes that are adopted at the start.
    package var adoptedProcesses: [String: Survivor] = [:]
    /// The control socket and keys of the former orchestrator, for adopted processes that accept
    /// connections from other hosts.
    package var handover: ControlHandover?
    /// The processes that agents run, according to the records of a former orchestrator.
    package var agentProcesses: [AgentProcessRecord] = []
    /// The programs of the processes that a killed orchestrator has left, by node.
    package var formerPrograms: [String: PinnedProgram] = [:]
    /// Whether the nodes continue to run when this process is killed.
    package var isDetached = false

    package init(
      held: Set<String> = [], adopted: [String: Survivor] = [:],
      handover: ControlHandover? = nil, agentProcesses: [AgentProcessRecord] = [],
      programs: [String: PinnedProgram] = [:], isDetached: Bool = false
    ) {
      formerPrograms = programs
      self.agentProcesses = agentProcesses
      self.handover = handover
      self.heldNodes = held
      self.adoptedProcesses = adopted
      self.isDetached = isDetached
    }
  }

  var plan: LaunchPlan
  var pendingChange = PendingChange()
  /// The nodes that are being moved to new programs; `nil` if there was no such change.
  var upgrades: ProgramUpgrades?
  /// The thread on which topology files are loaded while the loop continues.
  private(set) lazy var loader = LoopThread { _ in }
  /// The thread on which the journals are opened and read for a backup.
  private(set) lazy var archivist = LoopThread { _ in }
  /// The thread on which backups are written. It has a lower priority than the nodes.
  private(set) lazy var archiveWriter = LoopThread { _ in pr_lower_thread_priority() }
  var isBackingUp = false
  let directories: RuntimeDirectories
  package let loop = PollLoop()
  let control: ControlSocket
  /// The peers and keys of nodes that accept connections from other hosts; `nil` if all nodes are
  /// on one host.
  let deployedNodes: DeployedNodes?
  /// The engines that start and end the processes of nodes, by placement.
  private(set) lazy var engines = ProcessEngines(
    local: LocalEngine(self), slurm: slurmSteps.map { SlurmEngine(self, $0) },
    agents: AgentEngine(self), embedded: EmbeddedEngine(self))
  /// The steps of a Slurm job; `nil` if the topology does not run in a job.
  private let slurmSteps: SlurmSteps?
  let reporter: any Reporter
  let options: Options
  private(set) var lifecycle: TopologyLifecycle
  let processes: NodeProcesses
  /// The program files of the nodes that are started on this host.
  var programs: PinnedPrograms
  var leases: Leases
  /// Whether this orchestrator has begun to start nodes.
  var hasBegun = false
  var launchQueue = LaunchQueue()
  var facts: [String: NodeFacts] = [:]
  var waitingClients = WaitingClients()
  var survey = StatusSurvey()
  var diskWatch = DiskWatch()
  private(set) var incarnations: Incarnations
  let lock: TopologyLock
  let files: RuntimeFiles
  private let context = Context()
  private let logs: NodeLogs
  let stateWatcher: StateWatcher
  private let signals: SignalDescriptor
  /// Whether a rename is incomplete and could not be undone. While it is, no node is started.
  var isRenameInterrupted = false
  /// The error that prevented the last starts from being recorded. While there is an error, no node
  /// is started.
  private var incarnationError: (any Error)?
  private var deadlineTimer: TimerQueue.ID?
  /// The instant at which the next heartbeat of the nodes is due.
  var pingDue = ContinuousClock.now
  private var outcome: TopologyLifecycle.Outcome?
  package private(set) var isStopping = false

  /// Creates a supervisor. Call this before the process starts any thread, because signals are
  /// blocked for each thread separately.
  package init(
    plan: LaunchPlan, lock: TopologyLock, signals: SignalDescriptor, reporter: any Reporter,
    _ options: Options = Options()
  ) throws {
    self.plan = plan
    self.lock = lock
    directories = lock.directories
    files = RuntimeFiles(in: lock.directories)
    programs = PinnedPrograms(in: lock.directories)
    programs.adopt(options.formerPrograms)
    programs.removeUnused()
    self.signals = signals
    self.reporter = reporter
    self.options = options
    leases = Leases(
      term: (plan.leaseTerm ?? .zero).clampedNanoseconds, at: BootClock.nanoseconds)
    incarnations = try Incarnations(in: directories)
    try incarnations.record(incarnations.counts(after: plan.nameChanges))
    lifecycle = TopologyLifecycle(
      plan.nodes.map(\.supervision), incarnations: incarnations.counts,
      survivors: options.survivors, held: options.heldNodes, seed: .random(in: .min ... .max))
    let control = try ControlSocket(at: plan.controlEndpoint, in: context)
    self.control = control
    slurmSteps = try plan.job.map { [loop] in
      try SlurmSteps($0, environment: ProcessEnvironment.current, loop: loop)
    }
    deployedNodes = try plan.deployment.map { [context, loop, directories] _ in
      try DeployedNodes(
        plan.nodes, at: plan.controlBinding, of: control, in: directories, context, loop: loop,
        after: options.handover, of: options.adoptedProcesses.keys.sorted()
      ) { reporter.warning("\($0)") }
    }
    for agentProcess in options.agentProcesses {
      deployedNodes?.admit(agentProcess.record.node, by: agentProcess)
    }
    logs = NodeLogs(in: directories, keeping: plan) { reporter.warning($0) }
    processes = NodeProcesses(in: directories, loop: loop, logs: logs)
    stateWatcher = StateWatcher(in: context, loop: loop)
    for node in plan.nodes { facts[node.name] = NodeFacts(description: node.description) }
    processes.observer = self
  }

  /// Runs until every process has ended or, if agents run the nodes, until this orchestrator must
  /// exit. Returns the outcome.
  package func run() -> TopologyLifecycle.Outcome {
    recordJournalPaths()
    loop.add(control.socket, for: self) { $0.readFrames() }
    if let network = control.network { loop.add(network, for: self) { $0.readFrames() } }
    loop.add(descriptor: signals.descriptor, for: self) { $0.readSignals() }
    scheduleHeartbeat()
    startAfterFormerLeases()
    // The loop does not retain the objects that it calls back.
    withExtendedLifetime(self) { loop.run() }
    processes.helpers.finish()
    control.close()
    slurmSteps?.close()
    endLeasing()
    if lifecycle.state.isFinished {
      do {
        try UpgradeRecord.rollBack(in: directories)
        try RenameRecord.rollBack(in: directories)
        PinnedPrograms.removeAll(in: directories)
      } catch {
        reporter.warning(
          "the interrupted upgrade or rename of a node cannot be undone yet: \(error)")
      }
    }
    return outcome ?? .stopped
  }

  /// A text about the first failed node, with its reason; `nil` if no node has failed.
  package var failure: String? { TopologyLifecycle.failureText(lifecycle.failedNodes) }

  /// Requests a graceful stop. A second call kills all processes.
  package func requestStop(_ reason: TopologyLifecycle.Outcome = .stopped) {
    let input: TopologyLifecycle.Input = isStopping ? .kill(.forced) : .stop(reason)
    isStopping = true
    handle(input)
  }

  // MARK: The topology's state machine

  func handle(_ input: TopologyLifecycle.Input) {
    // All actions of an input are performed before the inputs that result from them are handled.
    var inputs = Queue<TopologyLifecycle.Input>()
    inputs.append(input)
    while let input = inputs.popFirst() {
      let actions = lifecycle.handle(input, at: .now)
      recordIncarnations(actions)
      for action in actions {
        if let next = perform(action) { inputs.append(next) }
      }
    }
    advanceUpgrades()
    scheduleDeadline()
    answerWaiting()
    followAwaitedStates()
    launchQueuedNodes()
  }

  /// Handles a heartbeat. Heartbeats are frequent and usually affect no other node, so this
  /// function performs no actions and updates nothing else.
  func recordHeartbeat(of node: String) {
    // The first heartbeat of a lost node changes its state, and is reported.
    guard !isLost(node) else { return handle(.node(node, .heartbeat)) }
    _ = lifecycle.handle(.node(node, .heartbeat), at: .now)
  }

  /// Records all incarnations that are about to start, with a single write.
  private func recordIncarnations(_ actions: [TopologyLifecycle.Action]) {
    var startingIncarnations: [String: Int] = [:]
    for case .node(let name, .spawn(let incarnation)) in actions {
      startingIncarnations[name] = incarnation
    }
    guard !startingIncarnations.isEmpty else { return }
    do {
      try incarnations.record(startingIncarnations)
      incarnationError = nil
    } catch {
      incarnationError = error
    }
  }

  private func perform(_ action: TopologyLifecycle.Action) -> TopologyLifecycle.Input? {
    switch action {
    case .report(.finished(let outcome)): reporter.report(.finished(reportedOutcome(for: outcome)))
    case .report(let report): reporter.report(report)
    case .moveInstances: moveInstances()
    case .switchedOver: switchOver()
    case .finished(let outcome):
      self.outcome = reportedOutcome(for: outcome)
      loop.stop()
    case .node(let name, .kill(let signal)):
      if signal == .kill { giveUpLease(of: name) }
      return processes[name]?.handle.engine.signal(signal, to: name)
    case .node(let name, let action): return perform(action, on: name).map { .node(name, $0) }
    }
    return nil
  }

  private func perform(
    _ action: NodeLifecycle.Action, on name: String
  ) -> NodeLifecycle.Input? {
    switch action {
    case .spawn(let incarnation):
      if let node = plan[name],
        !engines[node.placement].canStart(name, incarnation: incarnation)
      {
        return nil
      }
      return spawn(name, incarnation: UInt64(incarnation))
    case .greet: adopt(name)
    case .sendConfigure: sendPipes(to: name)
    case .sendStart: control.send(FrameHeader(.start), to: name)
    case .sendStop:
      control.send(
        FrameHeader(.stop, flags: isStopping ? NodeHandshake.allStopFlag : 0), to: name)
    case .report(let report): publish(report, of: name)
    case .checkLiveness: processes[name]?.handle.engine.checkLiveness(name)
    case .kill, .nodeFailed, .nodeStopped: break
    }
    return nil
  }

  /// Records a report about a node, logs it, and passes it to the reporter.
  func publish(_ report: NodeReport, of name: String) {
    facts[name]?.take(report, stopFailure: lifecycle[name]?.stopFailure)
    if case .outOfReach = report { abandonAtEnd(name) }
    if report == .ready { commitUpgrade(of: name) }
    logs.writeNote("\(report)", of: name)
    reporter.report(node: name, report)
  }

  func spawn(_ name: String, incarnation: UInt64) -> NodeLifecycle.Input {
    guard let node = plan[name] else { return .spawnFailed(reason: "no such node") }
    if isRenameInterrupted {
      return .spawnFailed(reason: RenameRefusal.incomplete.description)
    }
    if let incarnationError {
      return .spawnFailed(
        reason: "cannot record the start: \(incarnationError)",
        isDiskFull: incarnationError.isDiskFull)
    }
    var record = ProcessRecord(
      node: name, incarnation: incarnation, launch: plan.launch(of: node),
      isDetached: options.isDetached, dependencies: node.supervision.dependencies.map(\.node),
      stopTimeout: node.supervision.timeouts.stop, stopSignal: node.supervision.stopSignal)
    do {
      try deployedNodes?.admit(name, incarnation: incarnation)
      let pid = try engines[node.placement].launch(node, updating: &record)
      facts[name]?.take(started: record)
      return .spawned(pid: pid)
    } catch {
      leases.forget(name)
      forgetStart(of: name)
      let isCopyDiskFull = (error as? PinnedPrograms.CopyError)?.isDiskFull == true
      return .spawnFailed(reason: "\(error)", isDiskFull: error.isDiskFull || isCopyDiskFull)
    }
  }

  /// Returns the command that starts the process of a node on its host.
  func command(of node: LaunchPlan.Node, incarnation: UInt64) -> ChildCommand {
    var environment = plan.environment(of: node)
    environment[HelperProcesses.markerVariable] = HelperProcesses.marker(
      of: node.name, incarnation: incarnation, in: directories)
    return ChildCommand(
      path: node.information.program, arguments: arguments(of: node, incarnation: incarnation),
      environment: environment, directory: node.directory,
      deathSignal: options.isDetached ? nil : .kill, leadsSession: options.isDetached)
  }

  /// Returns the program file from which the processes of a node are started; `nil` if the node is
  /// not started on this host. The file stays the same until a client requests a start.
  func pinnedProgram(of node: LaunchPlan.Node) throws -> PinnedProgram? {
    guard node.placement == .local else { return nil }
    return try programs.pin(node.information.program, of: node.name)
  }

  /// Removes the credentials of a process that could not be started.
  func forgetStart(of name: String) {
    if plan.keys != nil { AgentProcessRecord.remove(name, in: directories) }
    deployedNodes?.revoke(name)
  }

  /// Returns the arguments of a process that is admitted.
  func arguments(of node: LaunchPlan.Node, incarnation: UInt64) -> [String] {
    plan.arguments(
      of: node, incarnation: incarnation, credentials: deployedNodes?.credentials(of: node.name)
    )
    .arguments
  }

  private func scheduleDeadline() {
    if let deadlineTimer { loop.cancel(deadlineTimer) }
    deadlineTimer = lifecycle.nextDeadline.map { deadline in
      let wait = max(.zero, deadline - .now)
      return loop.schedule(after: wait, for: self) {
        $0.creditOwnDelay()
        $0.creditQueueTime()
        $0.handle(.tick)
      }
    }
  }

  func answerWaiting() {
    let answers = waitingClients.takeAnswered(by: lifecycle) { .ended(reportedOutcome(for: $0)) }
    for (requester, answer) in answers { control.answer(answer, to: requester) }
  }

  /// Applies the new plan, when all nodes that it changes have ended.
  private func switchOver() {
    defer { programs.removeUnused() }
    guard let step = pendingChange.takeRequestedPlan() else { return switchUpgradedProgram() }
    let replaced = step.change.replacedNodes.subtracting(step.upgraded)
    let names = Set(step.plan.nodes.map(\.name))
    for name in plan.nodes.map(\.name) where !names.contains(name) {
      logs.writeNote("removed from the topology", of: name)
      logs.forget(name)
      facts[name] = nil
      programs.release(name)
    }
    for name in replaced { programs.release(name) }
    plan = step.plan
    logs.applyRetention(plan)
    reporter.applyLogRetention(plan.logs)
    // A node that is upgraded later has the machine of its former program until then.
    for node in plan.nodes where !step.upgraded.contains(node.name) {
      facts[node.name, default: NodeFacts(description: nil)].take(
        changed: node.description, isReplaced: replaced.contains(node.name))
    }
    lock.continueRun(with: plan.topologyFile, by: plan.deploymentFile)
    publish(deployedNodes?.switchOver(to: plan.nodes) ?? [])
    for entry in step.change.entries {
      if case .updatedInPlace(let aspects) = entry.fate, aspects.contains(.outs) {
        extend(entry.node)
      }
    }
  }

  /// Sends the additional pipes to a running node.
  private func extend(_ name: String) {
    guard let node = plan[name] else { return }
    do {
      try ProcessRecord.extend(name, by: node.configuration, in: directories)
    } catch {
      // Without the record, the next orchestrator would not know these pipes.
      reporter.warning("cannot record the outgoing pipes of node '\(name)': \(error)")
    }
    facts[name]?.take(extended: plan.launch(of: node))
    sendPipes(to: name)
  }

  /// Sends the list of its pipes to a node. A running node opens the new pipes.
  func sendPipes(to name: String) {
    guard let node = plan[name] else { return }
    control.send(FrameHeader(.configure), node.configuration, to: name)
  }

  // MARK: Signals

  /// Stops the topology gracefully when standard input is closed.
  package func watchLifeline() {
    var registration: PollLoop.Registration?
    registration = loop.add(descriptor: STDIN_FILENO, for: self) { supervisor in
      var buffer = [UInt8](repeating: 0, count: 256)
      let count = read(STDIN_FILENO, &buffer, buffer.count)
      guard count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) else { return }
      if let registration { supervisor.loop.remove(registration) }
      supervisor.requestStop()
    }
  }

  private func readSignals() {
    while let signal = signals.next() {
      if signal.number == SIGCHLD {
        for engine in engines.all { engine.reap() }
        ChildProcess.reapOrphans()
      } else if plan.keys != nil, !isStopping, signal.number != SIGINT {
        leave()
      } else {
        requestStop()
      }
    }
  }

  /// Ends this orchestrator. The nodes continue to run with their agents, and the next orchestrator
  /// adopts them.
  private func leave() {
    reporter.warning(
      "the orchestrator exits; its nodes keep running, and the next orchestrator adopts the nodes")
    outcome = TopologyLifecycle.Outcome(exitCode: 0)
    loop.stop()
  }
}

extension Supervisor: NodeProcesses.Observer {
  func handle(_ input: NodeLifecycle.Input, of node: String) {
    handle(.node(node, input))
    // The node has announced that it ends, and must not be restarted.
    if case .unattached = input, processes[node]?.saidGoodbye == true,
      lifecycle[node]?.state.isStoppedOnRequest == true
    {
      engines.slurm?.handleGoodbye(node)
    }
  }
  func drainFrames(of node: String) { stateWatcher.drain(node) }
  func nodeDidEnd(_ node: String) {
    leases.forget(node)
    if plan.keys != nil { AgentProcessRecord.remove(node, in: directories) }
    publish(deployedNodes?.revoke(node) ?? [])
  }

  func storeLastLines(_ lines: [String], of node: String) { facts[node]?.take(lastLines: lines) }

  func showLine(node: String, _ stream: LogStream, _ text: String) {
    reporter.showLine(node: node, stream, text)
  }
}

extension Supervisor.Reporter {
  /// Does nothing, because most reporters have no log of their own.
  package func applyLogRetention(_ retention: LogRetention) {}
}
