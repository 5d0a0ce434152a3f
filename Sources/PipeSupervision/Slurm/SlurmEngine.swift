import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// Runs processes on the hosts of a Slurm job, each started by an `srun` that is a child of the
/// orchestrator.
///
/// The end of a process is reported by its `srun` or by its host, or follows from the end of its lease.
final class SlurmEngine: ProcessEngine {
  /// A process on a host of the job.
  final class Handle: ProcessHandle {
    /// The local `srun` of the process.
    fileprivate enum Srun {
      case child(ChildProcess)
      /// The `srun` of a former orchestrator, with the child that reads the output of the step. It may
      /// linger after the step has ended.
      case adopted(AdoptedProcess, attachment: ChildProcess?)
      /// The `srun` has ended without reporting the fate of the process.
      case gone(pid: Int32)
    }

    let step: SlurmStep
    let engine: any ProcessEngine
    fileprivate var srun: Srun
    /// Reports whether `srun` runs, or that an adopted `srun` has ended.
    fileprivate var watch: PollLoop.Registration?
    /// Why `srun` does not run.
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
    var failureReason: String? { report.problem }

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

  // MARK: The start

  func canStart(_ name: String, incarnation: Int) -> Bool {
    _ = relocate(name)
    guard let host = supervisor.plan[name]?.hostName else { return true }
    let isLost = supervisor.plan.isLost(host)
    if isLost { supervisor.publish(.awaitingHost(host), of: name) }
    return supervisor.launchQueue.begin(
      name, incarnation: incarnation, on: host, isLost: isLost, at: .now)
  }

  /// Moves a node whose host is lost to another host, if there is one.
  /// - Returns: The new host; `nil` if the node stays.
  func relocate(_ name: String) -> String? {
    guard let (former, next) = supervisor.plan.move(name) else { return nil }
    supervisor.publish(.moving(from: former, to: next), of: name)
    return next
  }

  func start(_ node: LaunchPlan.Node, as record: inout ProcessRecord) throws -> Int32 {
    guard let host = node.hostName else { throw StartError(description: "the node has no host") }
    // The keys are sent to the host through standard input, so that no file there contains them.
    let path = processes.directories.key(of: node.name)
    let keys = open(path, O_RDONLY | O_CLOEXEC)
    guard keys >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(keys) }
    var command = supervisor.command(of: node, incarnation: record.incarnation)
    // SIGKILL would end only the srun, not the process.
    if command.deathSignal != nil { command.deathSignal = .terminate }
    let step = steps.step(of: node.name, incarnation: record.incarnation, on: host)
    record.step = .init(step.name, on: step.host, in: step.job)
    command = steps.command(
      command, as: step, of: node.name, in: supervisor.plan.topology, input: keys)
    if node.lease != nil {
      supervisor.leases.begin(node.name, incarnation: record.incarnation)
    }
    let file = try record.write(in: processes.directories)
    defer { close(file) }
    command.record = file
    let child = try ChildProcess.launch(command)
    let handle = Handle(step, .child(child), self)
    let process = processes.add(handle, as: record)
    process.pipes = [(.out, child.output), (.err, child.error)]
    handle.watch = processes.loop.add(descriptor: child.report, for: self) {
      $0.readReport(of: handle)
    }
    processes.watchOutput(of: node.name)
    return child.pid
  }

  private func readReport(of handle: Handle) {
    guard case .child(var child) = handle.srun else { return }
    if let error = child.readReport() { handle.startFailure = error }
    handle.srun = .child(child)
    if child.report < 0 { handle.unwatch() }
  }

  // MARK: Adoption

  func adopt(_ record: ProcessRecord, _ survivor: AdoptedProcess?) {
    guard let survivor, let recorded = record.step else { return }
    let node = record.node
    let step = SlurmStep(recorded.name, on: recorded.host, in: recorded.job)
    let handle = Handle(step, .adopted(survivor, attachment: nil), self)
    let process = processes.add(handle, as: record)
    do {
      let child = try ChildProcess.spawn(steps.attach(to: step))
      handle.srun = .adopted(survivor, attachment: child)
      process.pipes = [(.out, child.output), (.err, child.error)]
    } catch {
      supervisor.reportUnloggedOutput(of: node, error)
    }
    handle.watch = processes.loop.add(descriptor: survivor.descriptor, for: self) {
      $0.formerSrunEnded(process, handle, of: node)
    }
    // The process has a lease from the former orchestrator, with an unknown remaining time.
    if supervisor.plan[node]?.lease != nil {
      supervisor.leases.begin(node, incarnation: record.incarnation)
    }
  }

  /// Handles the end of an adopted `srun`. How the process ended is unknown: the host may be gone from
  /// the job.
  private func formerSrunEnded(_ process: NodeProcess, _ handle: Handle, of node: String) {
    guard case .adopted = handle.srun else { return }
    handle.unwatch()
    processes.observer?.readFrames()
    steps.lost(handle.step)
    unattach(
      process, handle, of: node, because: "the srun process of the former orchestrator has ended")
  }

  /// Handles the end of the child that reads the output of an adopted process. It usually ends with the
  /// process; the `srun` may linger for some seconds.
  private func attachmentEnded(
    _ process: NodeProcess, _ handle: Handle, of node: String, _ exit: ProcessExit
  ) {
    processes.observer?.readFrames()
    unattach(
      process, handle, of: node,
      because: "the sattach process that reads the output has ended (\(exit))")
  }

  // MARK: The end

  func reap() {
    steps.reap()
    for (node, process, handle) in processes.all(Handle.self) {
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

  /// Marks a process as unattached: no process on this host knows its fate any more.
  private func unattach(
    _ process: NodeProcess, _ handle: Handle, of node: String, because reason: String
  ) {
    detach(process, handle, of: node)
    processes.stopReading(process)
    handle.unwatch()
    if case .child(let child) = handle.srun { child.closePipes() }
    handle.srun = .gone(pid: handle.pid)
    if handle.report.hasLostHost { steps.lost(handle.step) }
    supervisor.handle(.unattached(reason: reason), of: node)
  }

  /// Handles the orderly goodbye of a process that must not be started again. If the process has no
  /// `srun` on this host any more, nothing else will report its end.
  func handleGoodbye(_ node: String) {
    guard let process = processes[node], let handle = process.handle as? Handle,
      handle.isUnattached
    else { return }
    processes.loop.schedule(after: NodeProcesses.lastFramesDelay, for: self) {
      guard $0.processes[node] === process else { return }
      $0.processes.finish(process, of: node, as: .unreported(saidGoodbye: true))
    }
  }

  // MARK: Processes that are not heard

  func checkLiveness(_ node: String) {
    guard let process = processes[node], let handle = process.handle as? Handle,
      handle.isUnattached || supervisor.isLost(node) || supervisor.isKilled(node)
    else { return }
    steps.ask(handle.step) { [weak self, weak process] presence in
      guard let self, let process, processes[node] === process else { return }
      take(presence, on: process, handle, of: node)
    }
  }

  private func take(
    _ presence: SlurmCommands.ProcessPresence, on process: NodeProcess, _ handle: Handle,
    of node: String
  ) {
    if presence != .unknown { supervisor.plan.find(handle.step.host) }
    handle.hasHostAnswered = presence != .unknown
    guard presence == .gone else {
      handle.goneAnswerCount = 0
      if presence == .present, supervisor.isLost(node) { supervisor.handle(.present, of: node) }
      return
    }
    let isLost = supervisor.isLost(node)
    // A process that sends signs of life exists.
    guard isLost || supervisor.isEnding(node) else { return }
    handle.goneAnswerCount += 1
    // If the process was never started, its srun must not start it later. The srun is terminated.
    guard isLost || handle.isUnattached else {
      if case .child(let child) = handle.srun { child.signal(.terminate) }
      return
    }
    // The host may have been asked just before it started the process.
    if handle.goneAnswerCount > 1 {
      processes.finish(process, of: node, as: .unobserved(isCertain: true))
    }
  }

  /// Marks the host of a node's process as found, because the node sends signs of life.
  func markHostFound(of node: String) {
    if let handle = processes[node]?.handle as? Handle { supervisor.plan.find(handle.step.host) }
  }

  /// Handles processes as ended if their leases have expired and no end was reported.
  func endLeases() {
    guard supervisor.plan.leaseTerm != nil else { return }
    let now = BootClock.nanoseconds
    for (node, process, handle) in processes.all(Handle.self) {
      let isLost = supervisor.isLost(node)
      // A host that answers reports the end itself.
      guard isLost || supervisor.isKilled(node) && !handle.hasHostAnswered,
        supervisor.leases.confirmEnd(node, at: now)
      else { continue }
      supervisor.plan.lose(hostOf: node)
      // If there is no other host, the node stays lost: its own host may come back.
      guard supervisor.isStopping || !isLost || supervisor.plan.canStart(node) else { continue }
      processes.finish(process, of: node, as: .leaseExpired)
    }
  }

  /// Asks the lost hosts whether they are back.
  func queryLostHosts() {
    for host in supervisor.plan.hosts?.lost ?? [] {
      let step = steps.step(ofHost: host)
      steps.ask(step) { [weak self] presence in
        guard let self else { return }
        // No srun is left on the host to report that Slurm has removed it from the job.
        guard presence != .unknown else { return steps.lost(step) }
        supervisor.plan.find(host)
        supervisor.launchQueuedNodes()
      }
    }
  }
}
