import PipeClient
import PipeRuntime
import PipeSupervision

/// One run of a topology in this process, from its file to its last process.
struct TopologyRun {
  /// The way in which the run is shown.
  enum Display {
    case plain, background
    /// The screen, with the signals that it handles. They are blocked before any thread has
    /// started.
    case screen(SignalDescriptor)

    /// Returns the screen if there is a suitable terminal, and plain lines otherwise.
    static func onTerminal(_ console: Console) throws -> Display {
      guard console.canRedraw, console.canPrompt else { return .plain }
      return .screen(try SignalDescriptor(ScreenRun.signals))
    }

    fileprivate var isBackground: Bool { if case .background = self { true } else { false } }
  }

  var file: String
  /// A name for the topology that replaces the name in the file.
  var name: String?
  /// The deployment file; `nil` where all nodes are on one host.
  var deployment: String?
  /// The directory of the keys and the address to listen at, for an engine whose agents start the
  /// processes.
  var keys: String?
  var address: String?
  /// The nodes to start; all nodes if the list is empty.
  var nodes: [String] = []
  /// Whether the dependencies of these nodes are started, too.
  var startsDependencies = true
  var display: Display
  var showsOutput = false
  /// The arguments for `inspector web`, if a web page shows the run, too; `nil` otherwise.
  var page: [String]?
  var timeout: Duration?
  /// Whether the run stops when standard input ends.
  var hasLifeline = false

  /// Runs the topology until it has ended.
  func run(console: Console) throws -> ExitCode {
    // Signals must be blocked before any thread starts, so that every thread inherits the mask.
    let signals = try SignalDescriptor([.interrupt, .terminate, .hangUp, .child])
    console.detach()
    var deploymentReport = deployment.map { DeploymentReport(.file($0)) }
    let loaded: LoadedTopology
    do {
      loaded = try LoadedTopology.load(.file(file), name: name, in: deploymentReport?.examination)
      try deploymentReport?.check(for: loaded.topology)
    } catch let errors as TopologyErrors {
      try deploymentReport?.check(for: nil as Topology?)
      for diagnostic in errors.diagnostics + (deploymentReport?.diagnostics ?? []) {
        console.note("\(diagnostic)")
      }
      return .usage
    }
    if let deploymentReport, !deploymentReport.isValid {
      for diagnostic in deploymentReport.diagnostics { console.note("\(diagnostic)") }
      return .usage
    }
    var job: SlurmJob?
    if let deploymentReport, loaded.deployment?.engine == .slurm,
      let examination = deploymentReport.examination
    {
      let currentJob = try SlurmJob.current()
      let unknown = currentJob.check(examination)
      guard unknown.isEmpty else {
        for diagnostic in unknown { console.note("\(diagnostic)") }
        return .usage
      }
      job = currentJob
    }
    let agentKeys = try agentKeys(of: loaded)
    let warnings = loaded.warnings + (deploymentReport?.diagnostics ?? [])
    for warning in warnings where !display.isBackground { console.note("\(warning)") }
    let directories = try RuntimeDirectories(topology: loaded.topology.name)
    if let note = directories.roots.fallbackNote { console.note("note: \(note)") }
    let plan = try LaunchPlan(
      loaded, directories: directories, job: job,
      at: agentKeys.map { (address ?? Deployment.defaultAddress, $0) })
    if let unknown = nodes.first(where: { !plan.names.contains($0) }) {
      throw TopologyClientError.unknownNode(unknown, known: plan.names)
    }
    try plan.raiseOpenFileLimit()
    // Before taking the lock, because the lock records the files by which the topology runs.
    if deployment == nil { try checkNoDeployedOrphan(in: directories) }
    try checkNoMisplacedNode(plan, in: directories)
    let lock = try TopologyLock.acquire(directories, file: file, deployment: deployment)
    defer { lock.release() }
    let page = try page.map { try RunWebPage(of: plan.topology, $0, reportAddress: console.note) }
    defer { page?.end() }
    switch display {
    case .plain:
      let reporter = reporter(plan, console)
      let supervisor = try supervisor(plan, lock, signals, reporter)
      supervisor.sample(every: .milliseconds(100 + 4 * plan.nodes.count))
      return finish(supervisor, supervisor.run(), console) { reporter.finish($0) }
    case .screen(let screenSignals):
      let screen = ScreenRun(lines: reporter(plan, console), screenSignals)
      let supervisor = try supervisor(plan, lock, signals, screen)
      try screen.show(directories, supervisor)
      supervisor.sample(every: .milliseconds(100 + 4 * plan.nodes.count))
      return try finish(supervisor, supervisor.run(), console) { try screen.finish($0) }
    case .background:
      let log = LogWriter(
        node: "orchestrator", in: directories, keeping: plan.logs)
      let reporter = BackgroundReporter(console: console, topology: plan.topology, log: log)
      let supervisor = try supervisor(plan, lock, signals, reporter)
      return ExitCode(rawValue: supervisor.run().exitCode)
    }
  }

  /// Reads the existing agent keys, if agents start the processes of the run.
  private func agentKeys(of loaded: LoadedTopology) throws -> AgentKeys? {
    guard loaded.deployment?.engine == .kubernetes else {
      guard keys == nil, address == nil else {
        throw CommandError(
          "--keys and --own-address require a deployment with 'engine: kubernetes'",
          code: .usage)
      }
      return nil
    }
    guard let keys else {
      throw CommandError("\(AgentKeysError.keysNotGiven(file: deployment ?? ""))", code: .usage)
    }
    do {
      return try AgentKeys(in: keys, of: loaded.agents, topology: loaded.topology.name)
    } catch {
      throw CommandError("\(error)", code: .usage)
    }
  }

  /// Throws if deployed nodes have survived their orchestrator, because a run on one host would end
  /// them.
  private func checkNoDeployedOrphan(in directories: RuntimeDirectories) throws {
    if let orphan = OrphanedTopology.find(directories), orphan.isDeployed {
      throw deployedOrphanError(of: orphan.name, orphan.upCommand)
    }
  }

  /// Throws if a process of a node may still run on a host where nothing in this run could end it.
  private func checkNoMisplacedNode(_ plan: LaunchPlan, in directories: RuntimeDirectories) throws {
    guard RunningTopology.find(directories) == nil,
      let (node, host) = plan.misplacedNode(among: ProcessRecord.all(in: directories))
    else { return }
    throw CommandError(
      "the orchestrator of '\(plan.topology)' was killed after it had started node "
        + "'\(node)' on host '\(host)', but these files assign the node to another host, and "
        + "the node may still be running; start the topology with the previous files, stop the "
        + "topology with 'orchestrator down -p \(plan.topology)', then start it with these "
        + "files",
      code: .usage)
  }

  private func deployedOrphanError(of topology: String, _ upCommand: String) -> CommandError {
    CommandError(
      "the orchestrator of '\(topology)' was killed, and its remaining nodes belong to a "
        + "deployment: '\(upCommand)' adopts the nodes; to start all nodes on this host, end "
        + "the remaining nodes first with 'orchestrator down -p \(topology)'",
      code: .usage)
  }

  private func reporter(_ plan: LaunchPlan, _ console: Console) -> RunReporter {
    RunReporter(console: console, topology: plan.topology, showsOutput: showsOutput)
  }

  private func supervisor(
    _ plan: LaunchPlan, _ lock: TopologyLock, _ signals: SignalDescriptor,
    _ reporter: any Supervisor.Reporter
  ) throws -> Supervisor {
    let survivors = try Survivor.all(in: lock.directories)
    if deployment == nil, survivors.contains(where: \.isDeployed) {
      // The orchestrator was killed at this very moment.
      throw deployedOrphanError(
        of: plan.topology, "orchestrator up \(file) --deployment DEPLOYMENT")
    }
    endHelpers(of: lock.formerProcesses, survivors, in: lock.directories)
    var plan = plan
    plan.assignHost(lock.formerProcesses)
    let agentAdoption = AgentAdoption(of: AgentProcessRecord.all(in: lock.directories), by: &plan)
    agentAdoption.reportRejectedProcesses(in: lock.directories, reporter: reporter)
    let adoption = Adoption(survivors, plan: plan, in: lock.directories)
    try adoption.endRejectedProcesses(in: lock.directories, reporter: reporter)
    let supervisor = try Supervisor(
      plan: plan, lock: lock, signals: signals, reporter: reporter,
      Supervisor.Options(
        held: held(plan), adopted: adoption.adoptable, handover: adoption.handover,
        agentProcesses: agentAdoption.adoptable, isDetached: display.isBackground))
    if let timeout {
      supervisor.loop.schedule(after: timeout, for: supervisor) { $0.requestStop() }
    }
    if hasLifeline { supervisor.watchLifeline() }
    return supervisor
  }

  /// Ends the helper processes of nodes that ended with, or after, a killed orchestrator.
  private func endHelpers(
    of former: [ProcessRecord], _ survivors: [Survivor], in directories: RuntimeDirectories
  ) {
    let ended = former.filter { record in
      record.step == nil && !survivors.contains { $0.node == record.node }
    }
    HelperProcesses.kill(
      of: Set(
        ended.map {
          HelperProcesses.marker(of: $0.node, incarnation: $0.incarnation, in: directories)
        }))
  }

  /// The nodes that are not started.
  private func held(_ plan: LaunchPlan) -> Set<String> {
    guard !nodes.isEmpty else { return [] }
    let started =
      startsDependencies ? plan.processes(requiredBy: nodes) : nodes.map(plan.process)
    return Set(plan.nodes.map(\.information.name)).subtracting(started)
  }

  private func finish(
    _ supervisor: Supervisor, _ outcome: TopologyLifecycle.Outcome, _ console: Console,
    _ show: (TopologyDirectory) throws -> Void
  ) rethrows -> ExitCode {
    try show(supervisor.directory())
    var outcome = outcome
    if outcome.exitCode == 0, let failure = supervisor.failure {
      outcome = TopologyLifecycle.Outcome(exitCode: 1, reason: failure)
    }
    if outcome.exitCode != 0, let reason = outcome.reason {
      for (name, lines) in supervisor.lastLines {
        for line in lines { console.note("\(name) | \(line)") }
      }
      console.error(reason)
    }
    return ExitCode(rawValue: outcome.exitCode)
  }
}
