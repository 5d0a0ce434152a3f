import Glibc
import PipeRuntime
import PipeSupervision

extension Supervisor {
  /// Starts a node's process without waiting for its program to run: that it cannot is told later,
  /// as `spawnFailed`.
  func spawn(_ name: String, incarnation: UInt64) -> NodeLifecycle.Input {
    guard let node = plan[name], let log = logs[name] else {
      return .spawnFailed(reason: "there is no such node")
    }
    if let countingProblem {
      return .spawnFailed(reason: "its start cannot be counted: \(countingProblem)")
    }
    do {
      let record = ProcessRecord(
        node: name, incarnation: incarnation, launch: plan.launch(of: node),
        isDetached: isDetached, dependencies: node.supervision.dependencies.map(\.node),
        stopTimeout: node.supervision.timeouts.stop)
      let file = try record.write(in: directories)
      defer { close(file) }
      let child = try ChildProcess.launch(
        ChildCommand(
          path: node.information.program,
          arguments: plan.arguments(of: node, incarnation: incarnation).arguments,
          environment: node.environment, deathSignal: isDetached ? nil : .kill,
          leadsSession: isDetached, record: file))
      let process = NodeProcess(
        child: child, incarnation: incarnation, capture: OutputCapture(writer: log))
      processes[name] = process
      records[name]?.startedAt = record.startedAt
      records[name]?.launch = record.launch
      records[name]?.status = nil
      records[name]?.statusProblem = nil
      records[name]?.isMisreporting = false
      records[name]?.isUnreachable = false
      process.watch = loop.add(descriptor: child.report, for: self) { [weak process] in
        if let process { $0.readReport(of: process) }
      }
      watchOutput(of: process, name)
      return .spawned(pid: child.pid)
    } catch {
      return .spawnFailed(reason: "\(error)")
    }
  }

  private func readReport(of process: NodeProcess) {
    guard case .own(var child) = process.origin else { return }
    if let error = child.readReport() { process.startFailure = error }
    process.origin = .own(child)
    if child.report < 0 { unwatch(process) }
  }

  private func unwatch(_ process: NodeProcess) {
    if let watch = process.watch { loop.remove(watch) }
    process.watch = nil
  }

  // MARK: Output

  func watchOutput(of process: NodeProcess, _ name: String) {
    for (stream, descriptor) in process.pipes {
      process.registrations[stream] = loop.add(descriptor: descriptor, for: self) {
        [weak process] in
        if let process { $0.read(process, of: name, stream, descriptor) }
      }
    }
  }

  /// Reads what waits in one of a node's pipes; stops watching it at its end.
  private func read(
    _ process: NodeProcess, of name: String, _ stream: LogStream, _ descriptor: Int32
  ) {
    let drained = process.capture.drain(descriptor, as: stream)
    for line in drained.lines { reporter.line(node: name, stream, line) }
    tell(drained.notice, of: name)
    if !drained.isOpen, let registration = process.registrations.removeValue(forKey: stream) {
      loop.remove(registration)
    }
  }

  // MARK: The end

  /// Takes the exit status of each child that has ended, after the last of what it wrote.
  func reapChildren() {
    for (name, process) in processes {
      guard case .own(var child) = process.origin, let exit = child.reap() else { continue }
      process.origin = .own(child)
      readReport(of: process)
      hasEnded(process, of: name)
      if case .own(let child) = process.origin { child.closePipes() }
      if let failure = process.startFailure {
        handle(.node(name, .spawnFailed(reason: "\(failure)")))
      } else {
        if !exit.isSuccess { takeLastWords(of: process, exit, name) }
        handle(.node(name, .exited(exit)))
      }
    }
  }

  /// Keeps what a process wrote last. Where it ended by itself and wrote why, that is the reason of its
  /// end: its goodbye, which says the same, may still be on its way.
  private func takeLastWords(of process: NodeProcess, _ exit: ProcessExit, _ name: String) {
    let lines = process.capture.recentLines
    records[name]?.lastLines = lines
    guard case .exited = exit,
      let line = lines.last(where: { $0.hasPrefix(NodeLog.errorPrefix) })
    else { return }
    let reason = String(line.dropFirst(NodeLog.errorPrefix.count))
    handle(.node(name, .complained(reason: reason)))
  }

  /// How long the last words of an adopted process, and the system's word on its end, are waited for.
  private static let lastWordsDelay: Duration = .milliseconds(100)

  /// Called when a process that is not our child has ended.
  func adoptedProcessEnded(_ process: NodeProcess, of name: String) {
    guard case .adopted(let adopted) = process.origin else { return }
    unwatch(process)
    // What it started itself ends with it, as where it is a child of ours.
    adopted.signal(.kill, group: true)
    readControl()
    if process.saidGoodbye || adopted.exit != nil { return bury(process, adopted, of: name) }
    loop.schedule(after: Self.lastWordsDelay, for: self) {
      $0.readControl()
      $0.bury(process, adopted, of: name)
    }
  }

  private func bury(_ process: NodeProcess, _ adopted: AdoptedProcess, of name: String) {
    hasEnded(process, of: name)
    for (_, descriptor) in process.pipes { close(descriptor) }
    let exit = adopted.exit ?? .untold(saidGoodbye: process.saidGoodbye)
    if !exit.isSuccess { takeLastWords(of: process, exit, name) }
    handle(.node(name, .exited(exit)))
  }

  private func hasEnded(_ process: NodeProcess, of name: String) {
    takeLastStates(of: name)
    for (stream, descriptor) in process.pipes where process.registrations[stream] != nil {
      read(process, of: name, stream, descriptor)
    }
    for registration in process.registrations.values { loop.remove(registration) }
    unwatch(process)
    processes.removeValue(forKey: name)
    ProcessRecord.remove(name, in: directories)
  }

  // MARK: Logs

  /// Writes a line of the supervisor's into a node's log.
  func note(_ line: String, in name: String) {
    tell(logs[name]?.write([line], from: .note), of: name)
  }

  private func tell(_ notice: LogWriter.Notice?, of name: String) {
    switch notice {
    case .failing(let error):
      reporter.warning(
        "the log of node '\(name)' cannot be written, and its lines are lost: \(error)")
    case .recovered(let count):
      reporter.warning(
        "the log of node '\(name)' is written again; \(count) lines were lost")
    case nil: break
    }
  }
}
