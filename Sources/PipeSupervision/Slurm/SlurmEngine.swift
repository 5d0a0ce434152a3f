import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// Runs processes on the hosts of a Slurm job. Each process is started by its own `srun`, which is
/// a child of the orchestrator.
///
/// The `srun` or the host reports when a process has ended. Without such a report, the process
/// counts as ended when its lease has expired.
final class SlurmEngine: ProcessEngine {
  /// A process on a host of the job.
  final class Handle: ProcessHandle {
    /// The `srun` on this host that started the process.
    fileprivate enum Srun {
      case child(ChildProcess)
      /// The `srun` of a former orchestrator. The child `attachment` reads the output of the step.
      /// The `srun` may continue for a while after the step has ended.
      case adopted(AdoptedProcess, attachment: ChildProcess?)
      /// The `srun` has ended without reporting whether the process has ended.
      case gone(pid: Int32)
    }

    let step: SlurmStep
    let engine: any ProcessEngine
    fileprivate var srun: Srun
    /// The registration that watches whether the program `srun` runs, or whether an adopted `srun`
    /// has ended.
    fileprivate var watch: PollLoop.Registration?
    /// The reason why `srun` does not run; `nil` if `srun` runs, or if the result is not known yet.
    fileprivate var startFailure: SpawnError?
    /// The messages of `srun` about the process.
    fileprivate var report = SrunReport()
    /// How many times in a row the host has answered that there is no such process.
    fileprivate var goneAnswerCount = 0
    /// Whether the host answered the last query.
    fileprivate(set) var hasHostAnswered = false
    private let steps: SlurmSteps
    private let loop: PollLoop

    fileprivate init(_ step: SlurmStep, _ srun: Srun, _ engine: SlurmEngine) {
      self.step = step
      self.srun = srun
      self.engine = engine
      steps = engine.steps
      loop = engine.processes.loop
    }

    let isRemote = true
    var failureReason: String? { report.lastError }

    var pid: Int32 {
      switch srun {
      case .child(let child): child.pid
      case .adopted(let process, _): process.pid
      case .gone(let pid): pid
      }
    }

    /// Whether the process has no `srun` on this host any more.
    var isUnattached: Bool { if case .gone = srun { true } else { false } }

    func signal(_ signal: Signal, group: Bool) -> Bool {
      steps.signal(signal, to: step, srun: isUnattached ? nil : pid)
      return true
    }

    func observe(_ lines: [String]) { for line in lines { report.take(line) } }

    fileprivate func unwatch() {
      if let watch { loop.remove(watch) }
      watch = nil
    }

    /// Ends the child that reads the output of an adopted process.
    fileprivate func endAttachment(_ process: NodeProcess) {
      guard case .adopted(let former, .some(var child)) = srun else { return }
      srun = .adopted(former, attachment: nil)
      process.pipes = []
      child.signal(.kill, group: true)
      child.wait()
      child.closePipes()
    }

    func release(_ process: NodeProcess) {
      unwatch()
      endAttachment(process)
      switch srun {
      case .child(var child):
        child.signal(.kill, group: true)
        child.wait()
        child.closePipes()
      case .adopted(let former, _): former.signal(.kill, group: true)
      case .gone: break
      }
    }
  }

  private unowned let supervisor: Supervisor
  let processes: NodeProcesses
  let steps: SlurmSteps

  init(_ supervisor: Supervisor, _ steps: SlurmSteps) {
    self.supervisor = supervisor
    processes = supervisor.processes
    self.steps = steps
  }

  // MARK: Starting processes

  func canStart(_ name: String, incarnation: Int) -> Bool {
    _ = relocate(name)
    guard let host = supervisor.plan[name]?.hostName else { return true }
    let isLost = supervisor.plan.isLost(host)
    if isLost { supervisor.publish(.awaitingHost(host), of: name) }
    return supervisor.launchQueue.begin(
      name, incarnation: incarnation, on: host, isLost: isLost, at: .now)
  }

  /// If the host of a node is lost, moves the node to another host if one is available.
  /// - Returns: The new host; `nil` if the node does not move.
  func relocate(_ name: String) -> String? {
    guard let (former, next) = supervisor.plan.move(name) else { return nil }
    supervisor.publish(.moving(from: former, to: next), of: name)
    return next
  }

  func launch(_ node: LaunchPlan.Node, updating record: inout ProcessRecord) throws -> Int32 {
    guard let host = node.hostName else { throw StartError(description: "the node has no host") }
    // The keys are sent to the host through standard input, so that no file on the host contains
    // the keys.
    let path = processes.directories.keyFile(of: node.name)
    let keys = open(path, O_RDONLY | O_CLOEXEC)
    guard keys >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(keys) }
    var command = supervisor.command(of: node, incarnation: record.incarnation)
    // SIGKILL would end only srun. The process on the other host would continue.
    if command.deathSignal != nil { command.deathSignal = .terminate }
    let step = steps.step(of: node.name, incarnation: record.incarnation, on: host)
    record.step = .init(step.name, on: step.host, in: step.jobID)
    command = steps.command(
      command, as: step, of: node.name, in: supervisor.plan.topology, input: keys)
    if node.lease != nil {
      supervisor.leases.begin(node.name, incarnation: record.incarnation)
    }
    let file = try record.write(in: processes.directories)
    defer { close(file) }
    command.recordDescriptor = file
    let child = try ChildProcess.launch(command)
    let handle = Handle(step, .child(child), self)
    let process = processes.add(handle, as: record)
    process.pipes = [(.out, child.outputDescriptor), (.err, child.errorDescriptor)]
    handle.watch = processes.loop.add(descriptor: child.reportDescriptor, for: self) {
      $0.readReport(of: handle)
    }
    processes.watchOutput(of: node.name)
    return child.pid
  }

  private func readReport(of handle: Handle) {
    guard case .child(var child) = handle.srun else { return }
    if let error = child.readReport() { handle.startFailure = error }
    handle.srun = .child(child)
    if child.reportDescriptor < 0 { handle.unwatch() }
  }

  // MARK: Adoption of processes

  func adopt(_ record: ProcessRecord, _ survivor: AdoptedProcess?) {
    guard let survivor, let recorded = record.step else { return }
    let node = record.node
    let step = SlurmStep(recorded.name, on: recorded.host, in: recorded.job)
    let handle = Handle(step, .adopted(survivor, attachment: nil), self)
    let process = processes.add(handle, as: record)
    do {
      let child = try ChildProcess.spawn(steps.attachCommand(to: step))
      handle.srun = .adopted(survivor, attachment: child)
      process.pipes = [(.out, child.outputDescriptor), (.err, child.errorDescriptor)]
    } catch {
      supervisor.reportUnloggedOutput(of: node, error)
    }
    handle.watch = processes.loop.add(descriptor: survivor.descriptor, for: self) {
      $0.formerSrunEnded(process, handle, of: node)
    }
    // The process has a lease from the former orchestrator, and it is unknown when that lease
    // expires.
    if supervisor.plan[node]?.lease != nil {
      supervisor.leases.begin(node, incarnation: record.incarnation)
    }
  }

  /// Handles the end of an adopted `srun`. The process may still be running, since the job may have
  /// lost the host.
  private func formerSrunEnded(_ process: NodeProcess, _ handle: Handle, of node: String) {
    guard case .adopted = handle.srun else { return }
    handle.unwatch()
    processes.observer?.readFrames()
    steps.requestReplacement(of: handle.step)
    unattach(
      process, handle, of: node, because: "the srun process of the former orchestrator has ended")
  }

  /// Handles the end of the child that reads the output of an adopted process. Usually, this child
  /// ends together with the process, while the `srun` of the process may continue for some seconds.
  private func attachmentEnded(
    _ process: NodeProcess, _ handle: Handle, of node: String, _ exit: ProcessExit
  ) {
    processes.observer?.readFrames()
    unattach(
      process, handle, of: node,
      because: "the sattach process that reads the output has ended (\(exit))")
  }

  // MARK: Ends of processes

  func reap() {
    steps.reap()
    for (node, process, handle) in processes.processes(with: Handle.self) {
      switch handle.srun {
      case .child(var child):
        guard let exit = child.reap() else { continue }
        handle.srun = .child(child)
        readReport(of: handle)
        srunEnded(process, handle, of: node, exit)
      case .adopted(let former, .some(var child)):
        guard let exit = child.reap() else { continue }
        handle.srun = .adopted(former, attachment: child)
        attachmentEnded(process, handle, of: node, exit)
      case .adopted, .gone: break
      }
    }
  }

  private func srunEnded(
    _ process: NodeProcess, _ handle: Handle, of node: String, _ exit: ProcessExit
  ) {
    processes.readRemainingOutput(of: process, node)
    if let uncertainty = handle.report.uncertainty(about: exit) {
      unattach(process, handle, of: node, because: uncertainty)
    } else {
      processes.finish(
        process, of: node, as: SrunReport.exit(of: exit), startFailure: handle.startFailure)
    }
  }

  private func detach(_ process: NodeProcess, _ handle: Handle, of node: String) {
    guard case .adopted(_, .some) = handle.srun else { return }
    processes.readRemainingOutput(of: process, node)
    processes.stopReading(process)
    handle.endAttachment(process)
  }

  /// Marks a process as unattached: nothing on this host can report any more whether the process is
  /// still running.
  private func unattach(
    _ process: NodeProcess, _ handle: Handle, of node: String, because reason: String
  ) {
    detach(process, handle, of: node)
    processes.stopReading(process)
    handle.unwatch()
    if case .child(let child) = handle.srun { child.closePipes() }
    handle.srun = .gone(pid: handle.pid)
    if handle.report.hasLostHost { steps.requestReplacement(of: handle.step) }
    supervisor.handle(.unattached(reason: reason), of: node)
  }

  /// Handles the goodbye of a process that has stopped gracefully and must not be restarted. If the
  /// process has no `srun` on this host any more, only the goodbye reports its end.
  func handleGoodbye(_ node: String) {
    guard let process = processes[node], let handle = process.handle as? Handle,
      handle.isUnattached
    else { return }
    processes.loop.schedule(after: NodeProcesses.lastFramesDelay, for: self) {
      guard $0.processes[node] === process else { return }
      $0.processes.finish(process, of: node, as: .unreported(saidGoodbye: true))
    }
  }

  // MARK: Processes that send no sign of life

  func checkLiveness(_ node: String) {
    guard let process = processes[node], let handle = process.handle as? Handle,
      handle.isUnattached || supervisor.isLost(node) || supervisor.isKilled(node)
    else { return }
    steps.ask(handle.step) { [weak self, weak process] presence in
      guard let self, let process, processes[node] === process else { return }
      handlePresence(presence, on: process, handle, of: node)
    }
  }

  private func handlePresence(
    _ presence: SlurmCommands.ProcessPresence, on process: NodeProcess, _ handle: Handle,
    of node: String
  ) {
    if presence != .unknown { supervisor.plan.markReachable(handle.step.host) }
    handle.hasHostAnswered = presence != .unknown
    guard presence == .gone else {
      handle.goneAnswerCount = 0
      if presence == .present, supervisor.isLost(node) { supervisor.handle(.present, of: node) }
      return
    }
    let isLost = supervisor.isLost(node)
    // If the process sends signs of life, it exists, and the host's answer is outdated.
    guard isLost || supervisor.isEnding(node) else { return }
    handle.goneAnswerCount += 1
    // The process may not have been started yet. Its srun is terminated, so that srun does not
    // start the process later.
    guard isLost || handle.isUnattached else {
      if case .child(let child) = handle.srun { child.signal(.terminate) }
      return
    }
    // The host may have given its first answer just before it started the process.
    if handle.goneAnswerCount > 1 {
      processes.finish(process, of: node, as: .unobserved(isCertain: true))
    }
  }

  /// Marks the host of a node's process as found, because the node sends signs of life.
  func markHostFound(of node: String) {
    if let handle = processes[node]?.handle as? Handle {
      supervisor.plan.markReachable(handle.step.host)
    }
  }

  /// Treats a process as ended if its lease has expired and no end of the process was reported.
  func endLeases() {
    guard supervisor.plan.leaseTerm != nil else { return }
    let now = BootClock.nanoseconds
    for (node, process, handle) in processes.processes(with: Handle.self) {
      let isLost = supervisor.isLost(node)
      // If the host answers, it reports the end of the process itself, and the lease is not needed.
      guard isLost || supervisor.isKilled(node) && !handle.hasHostAnswered,
        supervisor.leases.confirmEnd(node, at: now)
      else { continue }
      supervisor.plan.markLost(hostOf: node)
      // If no other host is available, the node stays lost, since its own host may still answer.
      guard supervisor.isStopping || !isLost || supervisor.plan.canStart(node) else { continue }
      processes.finish(process, of: node, as: .leaseExpired)
    }
  }

  /// Asks the lost hosts whether they answer again.
  func queryLostHosts() {
    for host in supervisor.plan.hosts?.lostHosts ?? [] {
      let step = steps.step(ofHost: host)
      steps.ask(step) { [weak self] presence in
        guard let self else { return }
        // The job may have lost the host, and the orchestrator may have no srun left that would
        // report the loss.
        guard presence != .unknown else { return steps.requestReplacement(of: step) }
        supervisor.plan.markReachable(host)
        supervisor.launchQueuedNodes()
      }
    }
  }
}
