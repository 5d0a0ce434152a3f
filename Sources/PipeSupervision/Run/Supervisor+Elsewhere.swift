import Glibc
import PipeClient
import PipeSystem
import PipeWire

/// Processes on other hosts: how they are started, and what becomes of those that are not heard any more.
extension Supervisor {
  /// Starts the process of a node where it belongs.
  /// - Returns: Its id on this host.
  func start(
    _ command: ChildCommand, of node: LaunchPlan.Node, as record: ProcessRecord
  ) throws -> Int32 {
    guard let engine, let host = node.hostName else {
      return try processes.start(command, as: record)
    }
    // Its keys go where it goes, and leave nothing there.
    let path = directories.key(of: node.name)
    let keys = open(path, O_RDONLY | O_CLOEXEC)
    guard keys >= 0 else { throw SystemError("open", on: path, code: errno) }
    defer { close(keys) }
    var command = command
    // SIGKILL would end the srun alone.
    if command.deathSignal != nil { command.deathSignal = .terminate }
    let step = engine.step(of: node.name, incarnation: record.incarnation, on: host)
    var record = record
    record.step = .init(step.name, on: step.host, in: step.job)
    return try processes.start(
      engine.command(command, as: step, of: node.name, in: plan.topology, input: keys), as: record,
      on: .init(step: step, engine))
  }

  /// Where a process runs that a former orchestrator has started on another host.
  func elsewhere(_ record: ProcessRecord) -> NodeProcess.Elsewhere? {
    guard let engine, let step = record.step else { return nil }
    return .init(step: SlurmStep(step.name, on: step.host, in: step.job), engine)
  }

  /// Asks what became of those that are not heard.
  func askHosts() {
    guard engine != nil || plan.keys != nil else { return }
    for name in Array(processes.nodes) { askHost(of: name) }
  }

  func askHost(of name: String) {
    guard let process = processes[name] else { return }
    if process.agent != nil { return askAgent(of: name) }
    if let host = process.host {
      // Where the process that it lives in is heard, it hangs by itself.
      guard isLost(name), let entry = processes.name(of: host), isHeard(entry) else { return }
      return handle(.node(name, .present))
    }
    guard let engine, let step = process.elsewhere?.step,
      process.isUnattached || isLost(name) || isKilled(name)
    else { return }
    engine.ask(step) { [weak self, weak process] verdict in
      guard let self, let process, processes[name] === process else { return }
      take(verdict, on: process, of: name)
    }
  }

  private func take(_ verdict: SlurmCommands.Verdict, on process: NodeProcess, of name: String) {
    if verdict != .unknown, let host = process.elsewhere?.step.host { plan.find(host) }
    switch verdict {
    case .unknown:
      process.timesGone = 0
      process.hasHostAnswered = false
    case .present:
      process.hasHostAnswered = true
      process.timesGone = 0
      if isLost(name) { handle(.node(name, .present)) }
    case .gone:
      process.hasHostAnswered = true
      // Who is heard is there.
      guard isLost(name) || isEnding(name) else { return }
      process.timesGone += 1
      // Where it may never have been started, it must not be from now on: that its srun sees to, and ends.
      guard isLost(name) || process.isUnattached else { return process.giveUpStart() }
      // Its host may have been asked just before it had started it.
      if process.timesGone > 1 { processes.hasEnded(elsewhere: name) }
    }
  }

  private func isHeard(_ name: String) -> Bool {
    lifecycle[name].map { $0.state.isOpenToLodgers && !isLost(name) && !$0.isAwaited(at: .now) }
      == true
  }

  func isLost(_ name: String) -> Bool {
    if case .lost? = lifecycle[name]?.state { true } else { false }
  }

  private func isEnding(_ name: String) -> Bool {
    if case .stopping? = lifecycle[name]?.state { true } else { false }
  }

  func isKilled(_ name: String) -> Bool {
    if case .stopping(let stopping)? = lifecycle[name]?.state {
      stopping.stage == .killed
    } else {
      false
    }
  }

  /// On the way down a process that nobody reaches is left where it is: it has no keys any more, and reaches nobody.
  func abandonAtEnd(_ name: String) {
    // The end of a lease is waited for, and is certain.
    guard isStopping, !leases.has(plan.host(of: name) ?? name) else { return }
    loop.schedule(after: .zero, for: self) { $0.processes.abandon(name) }
  }
}
