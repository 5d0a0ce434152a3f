import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// The processes of a topology's nodes: started or taken over, read, and reaped.
final class NodeProcesses {
  /// What is told of them.
  protocol Observer: AnyObject {
    func handle(_ input: NodeLifecycle.Input, of node: String)
    /// A process has ended: what it sent before is to be taken before its end is.
    func takeRest(of node: String)
    /// It is certain that the process has ended, and all that it has left is taken.
    func hasEnded(_ node: String)
    func takeLastLines(_ lines: [String], of node: String)
    /// What has come on the control socket is to be taken.
    func takeFrames()
    func line(node: String, _ stream: LogStream, _ text: String)
  }

  let directories: RuntimeDirectories
  let loop: PollLoop
  let logs: NodeLogs
  let helpers: HelperSweep
  weak var observer: (any Observer)?
  var processes: [String: NodeProcess] = [:]

  /// How long the last words of an adopted process, and the system's word on its end, are waited for.
  static let lastWordsDelay: Duration = .milliseconds(100)

  init(in directories: RuntimeDirectories, loop: PollLoop, logs: NodeLogs) {
    self.directories = directories
    self.loop = loop
    self.logs = logs
    helpers = HelperSweep(loop)
  }

  /// The nodes that have a process.
  var nodes: some Sequence<String> { processes.keys }

  subscript(node: String) -> NodeProcess? { processes[node] }

  // MARK: The start

  /// Starts a process without waiting for its program to run: that it cannot is told later, as
  /// `spawnFailed`.
  /// - Parameter elsewhere: Where it starts on another host.
  /// - Returns: Its id.
  func start(
    _ command: ChildCommand, as record: ProcessRecord, on elsewhere: NodeProcess.Elsewhere? = nil
  ) throws -> Int32 {
    let file = try record.write(in: directories)
    defer { close(file) }
    var command = command
    command.record = file
    let child = try ChildProcess.launch(command)
    let node = record.node
    let process = NodeProcess(
      child: child, incarnation: record.incarnation,
      capture: OutputCapture(writer: logs.writer(of: node)), on: elsewhere)
    processes[node] = process
    process.watch = loop.add(descriptor: child.report, for: self) { $0.readReport(of: process) }
    watchOutput(of: node)
    return child.pid
  }

  private func readReport(of process: NodeProcess) {
    guard case .own(var child) = process.origin else { return }
    if let error = child.readReport() { process.startFailure = error }
    process.origin = .own(child)
    if child.report < 0 { unwatch(process) }
  }

  func unwatch(_ process: NodeProcess) {
    if let watch = process.watch { loop.remove(watch) }
    process.watch = nil
  }

  /// Takes over a process of a former orchestrator; its output is read once it has its end of the pipes.
  /// - Parameter elsewhere: Where on another host it runs.
  /// - Returns: What it writes that cannot be logged, and why.
  func adopt(
    _ survivor: AdoptedProcess, as record: ProcessRecord,
    on elsewhere: NodeProcess.Elsewhere? = nil
  ) -> [any Error] {
    let node = record.node
    let process = NodeProcess(
      adopted: survivor, incarnation: record.incarnation,
      capture: OutputCapture(writer: logs.writer(of: node)), on: elsewhere)
    processes[node] = process
    var problems: [any Error] = []
    do {
      if let child = try elsewhere?.attach() {
        process.attachment = child
        process.formerSrun = survivor
        process.pipes = [(.out, child.output), (.err, child.error)]
      }
    } catch {
      problems.append(error)
    }
    for stream in elsewhere == nil ? [LogStream.out, .err] : [] {
      do {
        process.pipes.append((stream, try openPipe(of: node, stream)))
      } catch {
        problems.append(error)
      }
    }
    process.watch = loop.add(descriptor: survivor.descriptor, for: self) {
      $0.adoptedProcessEnded(process, of: node)
    }
    return problems
  }

  /// The path of the pipe that an adopted process is to write to; `nil` where there is none.
  func pipe(of node: String, _ stream: LogStream) -> String? {
    guard let process = processes[node], process.elsewhere == nil,
      process.pipes.contains(where: { $0.stream == stream })
    else { return nil }
    return path(ofPipe: stream, node)
  }

  /// Reads the output of an adopted process, which has opened its ends of the pipes.
  func outputIsOpen(of node: String) {
    watchOutput(of: node)
    // Nobody else needs the names.
    for stream in [LogStream.out, .err] { unlink(path(ofPipe: stream, node)) }
  }

  private func path(ofPipe stream: LogStream, _ node: String) -> String {
    directories.runtime + "/" + node + "." + stream.rawValue
  }

  /// Makes a FIFO for what an adopted process writes, and opens our end.
  private func openPipe(of node: String, _ stream: LogStream) throws -> Int32 {
    let path = path(ofPipe: stream, node)
    unlink(path)
    guard mkfifo(path, 0o600) == 0 else { throw SystemError("mkfifo", on: path, code: errno) }
    let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open", on: path, code: errno) }
    return descriptor
  }

  // MARK: Output

  private func watchOutput(of node: String) {
    guard let process = processes[node] else { return }
    for (stream, descriptor) in process.pipes {
      process.registrations[stream] = loop.add(descriptor: descriptor, for: self) {
        $0.read(process, of: node, stream, descriptor)
      }
    }
  }

  /// Reads what waits in one of a node's pipes; stops watching it at its end.
  private func read(
    _ process: NodeProcess, of node: String, _ stream: LogStream, _ descriptor: Int32
  ) {
    logs.noteClock()
    let drained = process.capture.drain(descriptor, as: stream)
    if process.elsewhere != nil { for line in drained.lines { process.srun.take(line) } }
    take(drained, of: node, stream)
    if !drained.isOpen, let registration = process.registrations.removeValue(forKey: stream) {
      loop.remove(registration)
    }
  }

  func take(_ drained: OutputCapture.Drained, of node: String, _ stream: LogStream) {
    for line in drained.lines { observer?.line(node: node, stream, line) }
    logs.tell(drained.notice, of: node)
    for (lodger, lines) in drained.ofLodgers {
      logs.tell(logs.writer(of: lodger).write(lines, from: stream), of: lodger)
      for line in lines { observer?.line(node: lodger, stream, line) }
    }
  }

  // MARK: The end

  /// Takes the exit status of each child that has ended, after the last of what it wrote.
  func reapChildren() {
    for (node, process) in processes {
      if let exit = process.attachment?.reap() { attachmentEnded(process, of: node, exit) }
      guard case .own(var child) = process.origin, let exit = child.reap() else { continue }
      process.origin = .own(child)
      readReport(of: process)
      guard process.elsewhere != nil else {
        takeEnd(of: process, node, exit)
        continue
      }
      readRest(of: process, node)
      if let doubt = process.srun.doubt(about: exit) {
        unattach(process, of: node, because: doubt)
      } else {
        takeEnd(of: process, node, SrunReport.exit(of: exit))
      }
    }
  }

  private func takeEnd(of process: NodeProcess, _ node: String, _ exit: ProcessExit) {
    remove(process, of: node)
    if case .own(let child) = process.origin { child.closePipes() }
    if let failure = process.startFailure {
      observer?.handle(
        .spawnFailed(reason: "\(failure)", isDiskFull: SystemError.isDiskFull(failure.code)),
        of: node)
    } else {
      tell(exit, of: process, node)
    }
    endLodgers(of: process, node, exit)
  }

  // MARK: Adopted processes

  /// Called when a process that is not our child has ended.
  private func adoptedProcessEnded(_ process: NodeProcess, of node: String) {
    guard case .adopted(let adopted) = process.origin else { return }
    unwatch(process)
    if process.elsewhere != nil {
      observer?.takeFrames()
      // How it ended, it has told nobody who lives: the host may be gone from the job.
      process.elsewhere?.lost()
      return unattach(process, of: node, because: "its srun, a former orchestrator's, has ended")
    }
    // What it started itself ends with it, as where it is a child of ours.
    adopted.signal(.kill, group: true)
    observer?.takeFrames()
    if process.saidGoodbye || adopted.exit != nil { return bury(process, adopted, of: node) }
    loop.schedule(after: Self.lastWordsDelay, for: self) {
      $0.observer?.takeFrames()
      $0.bury(process, adopted, of: node)
    }
  }

  private func bury(_ process: NodeProcess, _ adopted: AdoptedProcess, of node: String) {
    remove(process, of: node)
    for (_, descriptor) in process.pipes { close(descriptor) }
    let exit = adopted.exit ?? .untold(saidGoodbye: process.saidGoodbye)
    tell(exit, of: process, node)
    endLodgers(of: process, node, exit)
  }

  /// Reads what waits in the pipes.
  func readRest(of process: NodeProcess, _ node: String) {
    for (stream, descriptor) in process.pipes where process.registrations[stream] != nil {
      read(process, of: node, stream, descriptor)
    }
  }

  func remove(_ process: NodeProcess, of node: String) {
    observer?.takeRest(of: node)
    readRest(of: process, node)
    detach(process, of: node)
    process.formerSrun?.signal(.kill, group: true)
    for registration in process.registrations.values { loop.remove(registration) }
    unwatch(process)
    processes.removeValue(forKey: node)
    if process.host == nil, !process.isElsewhere {
      helpers.begin(
        HelperProcesses.marker(of: node, incarnation: process.incarnation, in: directories))
    }
    ProcessRecord.remove(node, in: directories)
    observer?.hasEnded(node)
  }

  /// Tells how a process has ended. Where it ended by itself and wrote why, that is the reason: its
  /// goodbye, which says the same, may still be on its way.
  func tell(_ exit: ProcessExit, of process: NodeProcess, _ node: String) {
    if !exit.isSuccess {
      let lines = process.capture.recentLines(ofLodger: process.host == nil ? nil : node)
      observer?.takeLastLines(lines, of: node)
      if case .exited = exit,
        let line = lines.last(where: { $0.hasPrefix(NodeLogPrefix.error) })
      {
        let reason = String(line.dropFirst(NodeLogPrefix.error.count))
        observer?.handle(.complained(reason: reason), of: node)
      } else if let reason = process.srun.problem {
        observer?.handle(.complained(reason: reason), of: node)
      }
    }
    observer?.handle(.exited(exit), of: node)
  }
}

/// Processes on other hosts, whose ends the `srun` here, the host itself or a lease tells.
extension NodeProcesses {
  /// What reads the output of an adopted process on another host has ended, as a rule with that. Its srun may linger for
  /// seconds more.
  func attachmentEnded(_ process: NodeProcess, of node: String, _ exit: ProcessExit) {
    observer?.takeFrames()
    guard processes[node] === process, case .adopted = process.origin else {
      return detach(process, of: node)
    }
    unattach(process, of: node, because: "what reads its output has ended (\(exit))")
  }

  /// Nothing more is to be read of what an adopted process on another host writes.
  func detach(_ process: NodeProcess, of node: String) {
    guard var child = process.attachment else { return }
    process.attachment = nil
    readRest(of: process, node)
    for registration in process.registrations.values { loop.remove(registration) }
    process.registrations = [:]
    process.pipes = []
    child.signal(.kill, group: true)
    child.wait()
    child.closePipes()
  }

  /// The node whose own process this is.
  func name(of process: NodeProcess) -> String? { processes.first { $0.value === process }?.key }

  func unattach(_ process: NodeProcess, of node: String, because reason: String) {
    let pid = process.pid
    detach(process, of: node)
    for registration in process.registrations.values { loop.remove(registration) }
    process.registrations = [:]
    unwatch(process)
    if case .own(let child) = process.origin { child.closePipes() }
    process.origin = .unattached(pid: pid)
    if process.srun.hasLostHost { process.elsewhere?.lost() }
    observer?.handle(.unattached(reason: reason), of: node)
  }

  /// It is certain that a process on another host has ended, whatever has started it there says.
  func hasEnded(elsewhere node: String) {
    guard let process = processes[node], process.elsewhere != nil || process.agent != nil else {
      return
    }
    bury(process, as: .unseen(isCertain: true), of: node)
  }

  /// A process on another host has ended by its lease.
  func leaseRanOut(_ node: String) {
    guard let process = processes[node], process.elsewhere != nil else { return }
    bury(process, as: .leaseRanOut, of: node)
  }

  /// A process on another host that is not to be started again has said that it ends in order. Where nothing on this
  /// host is left of what started it, nobody else will tell.
  func leaves(elsewhere node: String) {
    guard let process = processes[node], process.isUnattached else { return }
    loop.schedule(after: Self.lastWordsDelay, for: self) {
      if $0.processes[node] === process {
        $0.bury(process, as: .untold(saidGoodbye: true), of: node)
      }
    }
  }

  /// Gives up a process on another host that nobody reaches.
  func abandon(_ node: String) {
    guard let process = processes[node], process.isElsewhere else { return }
    bury(process, as: .unseen(isCertain: false), of: node)
  }

  func bury(_ process: NodeProcess, as exit: ProcessExit, of node: String) {
    remove(process, of: node)
    if case .own(var child) = process.origin {
      child.signal(.kill, group: true)
      child.wait()
      child.closePipes()
    }
    tell(exit, of: process, node)
    endLodgers(of: process, node, exit)
  }
}

/// The processes that agents run.
extension NodeProcesses {
  /// Takes a process as one that an agent is told to start, or of which it is to be heard that it runs.
  func begin(_ run: AgentRun, as record: ProcessRecord) throws {
    // Nobody locks it: its process is elsewhere.
    close(try record.write(in: directories))
    processes[record.node] = NodeProcess(
      by: run, incarnation: record.incarnation,
      capture: OutputCapture(writer: logs.writer(of: record.node)))
  }

  /// An agent hands on what its process has written.
  func take(_ output: AgentOutput, of node: String) {
    guard let process = processes[node], process.agent != nil,
      process.incarnation == output.incarnation
    else { return }
    take(
      process.capture.take(output.lines, from: output.isError ? .err : .out), of: node,
      output.isError ? .err : .out)
  }

  /// An agent has told how its process has ended.
  func endedAtAgent(_ node: String, _ exit: ProcessExit) {
    guard let process = processes[node], process.agent != nil else { return }
    bury(process, as: exit, of: node)
  }

  /// An agent has told that it could not start a process.
  func didNotStart(_ node: String, because reason: String) {
    guard let process = processes[node], process.agent != nil else { return }
    remove(process, of: node)
    observer?.handle(.spawnFailed(reason: reason), of: node)
  }
}
