import PipeClient
import PipeModelChecker
import PipeRuntime
import PipeSupervision

/// One run of a topology in this process, from reading its file to the end of its last process.
struct TopologyRun {
  /// How the run is shown.
  enum Display {
    case plain, background
    /// Lines for the log of a service manager. The nodes outlive a killed orchestrator.
    case service
    /// The screen. The signals that the screen handles must have been blocked before the process
    /// started its first thread.
    case screen(SignalDescriptor)

    /// Returns `screen` if the terminal can show the screen; otherwise, `plain`.
    static func onTerminal(_ console: Console) throws -> Display {
      guard console.canRedraw, console.canPrompt else { return .plain }
      return .screen(try SignalDescriptor(ScreenRun.signals))
    }

    fileprivate var isBackground: Bool { if case .background = self { true } else { false } }
    fileprivate var isService: Bool { if case .service = self { true } else { false } }
    /// Whether the nodes continue to run when the orchestrator is killed.
    fileprivate var isDetached: Bool { isBackground || isService }
  }

  var file: String
  /// A name that replaces the topology's name in the file.
  var name: String?
  /// The deployment file; `nil` if all nodes are on one host.
  var deployment: String?
  /// The directory of the keys. Used, like ``address``, only if agents start the processes.
  var keyDirectory: String?
  var address: String?
  /// The nodes to start; all nodes if the list is empty.
  var nodes: [String] = []
  /// Whether the dependencies of ``nodes`` are started as well.
  var startsDependencies = true
  var display: Display
  var showsOutput = false
  var logFormat = LogFormat.text
  /// The arguments for `inspector web`; `nil` if the run has no web page.
  var pageArguments: [String]?
  var startTimeout: Duration?
  /// The directory in which the nodes record their steps; `nil` if the run is not recorded.
  var recordingDirectory: String?
  /// Whether the nodes take only the steps that a client requests.
  var isGated = false
  /// Whether the run stops when standard input is closed.
  var hasLifeline = false

  /// Runs the topology until it has ended.
  func run(console: Console) throws -> ExitCode {
    Failpoint.arm(node: "orchestrator", incarnation: 1)
    let notifier = display.isService ? ServiceManager.take().map(ServiceNotifier.init) : nil
    // Signals must be blocked before the process starts its first thread, so that all threads
    // inherit the signal mask.
    let signals = try SignalDescriptor([.interrupt, .terminate, .hangUp, .child])
    console.detach()
    var deploymentReport = deployment.map { DeploymentReport(.file($0)) }
    let loaded: LoadedTopology
    do {
      loaded = try LoadedTopology.load(
        .file(file), name: name, in: deploymentReport?.examination, keepsPrograms: true)
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
    var plan = try LaunchPlan(
      loaded, directories: directories, job: job,
      at: agentKeys.map { (address ?? Deployment.defaultAddress, $0) })
    if let recordingDirectory {
      plan.record(in: try beginRecording(in: recordingDirectory, of: loaded))
    }
    if isGated { plan.gate() }
    if let unknown = nodes.first(where: { !plan.commandNames.contains($0) }) {
      throw TopologyClientError.unknownNode(unknown, known: plan.commandNames)
    }
    try plan.raiseOpenFileLimit()
    // Acquiring the lock overwrites the record of the files that the former run used. So these
    // checks must be made before the lock is acquired.
    if deployment == nil { try checkNoDeployedOrphan(in: directories) }
    try checkNoMisplacedNode(plan, in: directories)
    let lock = try TopologyLock.acquire(directories, file: file, deployment: deployment)
    defer { lock.release() }
    let page = try pageArguments.map {
      try RunWebPage(of: plan.topology, $0, reportAddress: console.note)
    }
    defer { page?.end() }
    switch display {
    case .plain:
      let reporter = reporter(plan, console)
      let supervisor = try supervisor(loaded, plan, lock, signals, reporter)
      supervisor.sample(every: .milliseconds(100 + 4 * plan.nodes.count))
      return finish(supervisor, supervisor.run(), reporter)
    case .service:
      let log = LogWriter(node: "orchestrator", in: directories, keeping: plan.logs)
      let reporter = reporter(plan, console, log: log, notifier: notifier)
      let supervisor = try supervisor(loaded, plan, lock, signals, reporter)
      notifier?.begin(on: supervisor.loop)
      return finish(supervisor, supervisor.run(), reporter)
    case .screen(let screenSignals):
      let lines = reporter(plan, console)
      let screen = ScreenRun(lines: lines, screenSignals)
      let supervisor = try supervisor(loaded, plan, lock, signals, screen)
      try screen.show(directories, supervisor)
      supervisor.sample(every: .milliseconds(100 + 4 * plan.nodes.count))
      let outcome = supervisor.run()
      try screen.finish(supervisor.directory())
      return exitCode(of: outcome, supervisor, lines)
    case .background:
      let log = LogWriter(
        node: "orchestrator", in: directories, keeping: plan.logs)
      let reporter = BackgroundReporter(console: console, topology: plan.topology, log: log)
      let supervisor = try supervisor(loaded, plan, lock, signals, reporter)
      return ExitCode(rawValue: supervisor.run().exitCode)
    }
  }

  /// Creates the directory of a recorded run. If the directory already contains a run of the same
  /// file, continues that run.
  /// - Returns: The absolute path of the directory.
  private func beginRecording(in directory: String, of loaded: LoadedTopology) throws -> String {
    let path = FileSystem.absolutePath(directory)
    let text = FileSystem.contents(of: file, limit: .max) ?? []
    let descriptionFile = "\(path)/\(RunDirectory.descriptionFile)"
    let copy = "\(path)/\(RunDirectory.topologyFile)"
    var description = RunDescription(
      topology: loaded.topology.name, file: FileSystem.absolutePath(file),
      started: WallClock.nanoseconds,
      programs: loaded.programs.compactMapValues(ProgramFingerprint.make))
    if let bytes = FileSystem.contents(of: descriptionFile) {
      let former = try? JSONRecord.decode(RunDescription.self, from: bytes)
      (description.started, description.programs) = (former?.started ?? 0, former?.programs)
      guard former == description, FileSystem.contents(of: copy, limit: .max) == text else {
        throw CommandError(
          "'\(directory)' has the run of another topology file or of a former version of the file; "
            + "name another directory with --out", code: .usage)
      }
      return path
    }
    guard FileSystem.entryNames(of: path).isEmpty else {
      throw CommandError(
        "'\(directory)' is not empty, and not a recorded run; name another directory with --out",
        code: .usage)
    }
    try FileSystem.makeDirectories(path)
    try FileSystem.replace(copy, with: text)
    try FileSystem.replace(descriptionFile, with: JSONRecord.encode(description))
    return path
  }

  /// Reads the keys of the agents; returns `nil` if the run has no agents.
  private func agentKeys(of loaded: LoadedTopology) throws -> AgentKeys? {
    guard loaded.deployment?.engine == .kubernetes else {
      guard keyDirectory == nil, address == nil else {
        throw CommandError(
          "--keys and --own-address require a deployment with 'engine: kubernetes'",
          code: .usage)
      }
      return nil
    }
    guard let keyDirectory else {
      throw CommandError("\(AgentKeysError.keysNotGiven(file: deployment ?? ""))", code: .usage)
    }
    do {
      return try AgentKeys(in: keyDirectory, of: loaded.agents, topology: loaded.topology.name)
    } catch {
      throw CommandError("\(error)", code: .usage)
    }
  }

  /// Throws an error if the orchestrator of a deployment was killed and its nodes still run: a run
  /// on one host would end these nodes.
  private func checkNoDeployedOrphan(in directories: RuntimeDirectories) throws {
    if let orphan = OrphanedTopology.find(directories), orphan.isDeployed {
      throw deployedOrphanError(of: orphan.name, orphan.upCommand)
    }
  }

  /// Throws an error if a node may still be running on a host where this run could not end the
  /// node.
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

  private func reporter(
    _ plan: LaunchPlan, _ console: Console, log: LogWriter? = nil, notifier: ServiceNotifier? = nil
  ) -> RunReporter {
    RunReporter(
      console: console, topology: plan.topology,
      RunReporter.Style(
        format: logFormat, showsOutput: showsOutput, isService: display.isService),
      log: log, notifier: notifier)
  }

  private func supervisor(
    _ loaded: LoadedTopology, _ plan: LaunchPlan, _ lock: TopologyLock, _ signals: SignalDescriptor,
    _ reporter: any Supervisor.Reporter
  ) throws -> Supervisor {
    let survivors = try Survivor.all(in: lock.directories)
    if deployment == nil, survivors.contains(where: \.isDeployed) {
      // The former orchestrator was killed after the first check.
      throw deployedOrphanError(
        of: plan.topology, "orchestrator up \(file) --deployment DEPLOYMENT")
    }
    InterruptedPause.end(of: survivors.map(\.process), in: lock.directories)
    endHelpers(of: lock.formerProcesses, survivors, in: lock.directories)
    var (loaded, plan) = (loaded, plan)
    var adopted = try adopt(survivors, by: &plan, of: loaded, lock, reporter)
    if let node = try UpgradeRecord.rollBack(in: lock.directories) {
      reporter.warning(
        "the upgrade of node '\(node)' was interrupted; the node runs its former program, and "
          + "'orchestrator apply' upgrades it again")
    }
    try RenameRecord.rollBack(in: lock.directories)
    try JournalRenames(plan, in: lock.directories).run { reporter.report(.moved($0)) }
    while let former = try topologyAfterMoves(loaded, plan, reporter) {
      loaded = former
      plan = try plan.replanned(for: former, directories: lock.directories)
      let survivors = try Survivor.all(in: lock.directories)
      adopted = try adopt(survivors, by: &plan, of: former, lock, reporter)
    }
    let supervisor = try Supervisor(
      plan: plan, lock: lock, signals: signals, reporter: reporter,
      Supervisor.Options(
        held: heldNodes(of: plan), adopted: adopted.local.adoptable,
        handover: adopted.local.handover, agentProcesses: adopted.byAgents.adoptable,
        programs: loaded.pinnedPrograms,
        isDetached: display.isDetached))
    if let startTimeout {
      supervisor.loop.schedule(after: startTimeout, for: supervisor) { $0.requestStop() }
    }
    if hasLifeline { supervisor.watchLifeline() }
    return supervisor
  }

  /// Decides which processes of a killed orchestrator this run adopts, and ends the others.
  private func adopt(
    _ survivors: [Survivor], by plan: inout LaunchPlan, of loaded: LoadedTopology,
    _ lock: TopologyLock, _ reporter: any Supervisor.Reporter
  ) throws -> (local: Adoption, byAgents: AgentAdoption) {
    plan.assignHost(lock.formerProcesses)
    let agentAdoption = AgentAdoption(of: AgentProcessRecord.all(in: lock.directories), by: &plan)
    agentAdoption.reportRejectedProcesses(in: lock.directories, reporter: reporter)
    let adoption = Adoption(
      survivors, plan: plan, programs: loaded.pinnedPrograms, in: lock.directories)
    try adoption.endRejectedProcesses(in: lock.directories, reporter: reporter)
    return (adoption, agentAdoption)
  }

  /// Moves the instances of the nodes whose number of shards has changed.
  /// - Returns: `nil` if all instances could be moved. If a node's former shards still have events
  ///   to deliver, these shards must start again: returns the topology with the node's former
  ///   number of shards.
  private func topologyAfterMoves(
    _ loaded: LoadedTopology, _ plan: LaunchPlan, _ reporter: any Supervisor.Reporter
  ) throws -> LoadedTopology? {
    let moves = ShardMoves(loaded, plan)
    do {
      try moves.run { reporter.report(.moved($0)) }
      return nil
    } catch let error as ShardMoveError {
      guard let work = error.unfinishedWork,
        let (former, count) = try moves.topologyWithFormerShards(of: error.node)
      else { throw error }
      reporter.warning(
        "node '\(error.node)' starts with its former \(count) shard\(count == 1 ? "" : "s"), "
          + "because of \(work); 'orchestrator apply \(file)' changes the number")
      return former
    }
  }

  /// Ends the remaining helper processes of nodes that have ended. The former orchestrator had
  /// started these nodes.
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

  /// Returns the nodes that do not start together with the topology, but only on request.
  private func heldNodes(of plan: LaunchPlan) -> Set<String> {
    guard !nodes.isEmpty else { return [] }
    let started =
      startsDependencies ? plan.processes(requiredBy: nodes) : plan.processes(of: nodes)
    return Set(plan.nodes.map(\.information.name)).subtracting(started)
  }

  private func finish(
    _ supervisor: Supervisor, _ outcome: TopologyLifecycle.Outcome, _ reporter: RunReporter
  ) -> ExitCode {
    reporter.finish(supervisor.directory())
    return exitCode(of: outcome, supervisor, reporter)
  }

  /// Reports why the run has failed, and returns its exit code.
  private func exitCode(
    of outcome: TopologyLifecycle.Outcome, _ supervisor: Supervisor, _ reporter: RunReporter
  ) -> ExitCode {
    var outcome = outcome
    // A service manager restarts a run that has failed, but not a run that was stopped on request.
    let isRequested = display.isService && supervisor.isStopping
    if outcome.exitCode == 0, !isRequested, let failure = supervisor.failure {
      outcome = TopologyLifecycle.Outcome(exitCode: 1, reason: failure)
    }
    if outcome.exitCode != 0, let reason = outcome.reason {
      reporter.fail(reason, after: supervisor.lastLines)
    }
    return ExitCode(rawValue: outcome.exitCode)
  }
}
