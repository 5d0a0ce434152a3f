import Glibc
import PipeClient
import PipeSupport
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

/// Starts on other hosts, of which each has its turn.
extension Supervisor {
  /// Whether a node can be started at once; else that is done when it has its turn.
  func hasTurn(_ name: String, incarnation: Int) -> Bool {
    if plan.host(of: name) == nil { _ = relocate(name) }
    guard let node = plan[name], node.host == nil else { return true }
    if node.hasAgent { return hasAgent(name, incarnation: incarnation) }
    guard let host = node.hostName else { return true }
    let isLost = plan.isLost(host)
    if isLost { tell(.awaitingHost(host), of: name) }
    return turns.begin(name, incarnation: incarnation, on: host, isLost: isLost, at: .now)
  }

  /// Has a node start elsewhere where its host is lost and there is another one.
  /// - Returns: Where; `nil` where it stays.
  private func relocate(_ name: String) -> String? {
    guard let (former, next) = plan.move(name) else { return nil }
    tell(.moving(from: former, to: next), of: name)
    return next
  }

  /// Starts those that have their turn now.
  func goOnLaunching() {
    guard engine != nil || plan.keys != nil else { return }
    turns.end { !isStarting($0) }
    turns.move { plan.isLost($0.host) ? relocate($0.node) : nil }
    while let next = turns.next(
      isLost: { plan.isLost($0) || isAgentAway($0) },
      where: { !isStarting($0.node, $0.incarnation) })
    {
      if isStarting(next.node, next.incarnation) {
        let input = spawn(next.node, incarnation: UInt64(next.incarnation))
        loop.schedule(after: .zero, for: self) { $0.handle(.node(next.node, input)) }
      } else if isEndingUnstarted(next.node, next.incarnation) {
        loop.schedule(after: .zero, for: self) {
          $0.handle(.node(next.node, .spawnFailed(reason: "it was to end before it was started")))
        }
      }
    }
  }

  /// Tells those that wait for their turn that this time does not count.
  func creditLaunchTurns() {
    for (node, time) in turns.takeTimes(at: .now) where time > .zero {
      handle(.node(node, .queued(time)))
    }
  }

  private func isStarting(_ name: String, _ incarnation: Int? = nil) -> Bool {
    guard let node = lifecycle[name], case .starting = node.state else { return false }
    return incarnation.map { node.incarnation == $0 && node.pid == nil } ?? true
  }

  private func isEndingUnstarted(_ name: String, _ incarnation: Int) -> Bool {
    guard let node = lifecycle[name], case .stopping = node.state else { return false }
    return node.incarnation == incarnation && node.pid == nil
  }
}

/// Processes on other hosts that must not go on without this one, so that others may take their place.
extension Supervisor {
  /// Starts the nodes, as soon as no process can be left that a former orchestrator had granted a lease.
  func begin() {
    // Also where none may move any more: one that was granted a lease may live where another one is to start.
    guard let left = LeaseMark.left(in: directories) else { return start() }
    // Those that are taken over are granted theirs from here on.
    let leased =
      plan.nodes.filter { $0.lease != nil && $0.host == nil }.map(\.name)
      + lock.formerProcesses.filter(\.launch.hasLease).map(\.node)
    if !leased.isEmpty, leased.allSatisfy({ options.adopted[$0] != nil }) { return start() }
    reporter.warning(
      "an orchestrator of this topology was killed. Nodes with 'on_host_loss: move' may go on for "
        + "\(left.shortText), and none is started before that")
    loop.schedule(after: left, for: self) { $0.start() }
  }

  private func start() {
    guard !isStopping else { return }
    hasBegun = true
    if let term = plan.leaseTerm {
      do {
        try LeaseMark.write(term, in: directories)
      } catch {
        reporter.warning("\(error)")
        return requestStop(.init(exitCode: 1, reason: "\(error)"))
      }
    }
    handle(.start)
  }

  /// After the run: no process has a lease any more, unless one was given up before that was certain, or none was
  /// started since a former orchestrator's may live.
  func endLeasing() {
    if hasBegun, leases.isEmpty { LeaseMark.remove(in: directories) }
  }

  /// A process asks for its lease to go on.
  /// - Parameter asked: When it did, by its own clock.
  func renew(_ name: String, asked: UInt64) {
    guard let process = processes[name] else { return }
    if isLost(name) { handle(.node(name, .heartbeat)) }
    guard leases.renew(name, incarnation: process.incarnation, at: BootClock.nanoseconds) else {
      return
    }
    control.send(FrameHeader(.renewed, sequence: asked), to: name)
  }

  /// A node is to be killed, or that in whose process it lives: its lease is not to keep it.
  func giveUpLease(of name: String) { leases.giveUp(plan.host(of: name) ?? name) }

  /// Takes those for ended whose leases have run out while nobody told of them.
  func endLeases() {
    guard plan.leaseTerm != nil else { return }
    let now = BootClock.nanoseconds
    for name in Array(processes.nodes) {
      guard let process = processes[name], process.elsewhere != nil else { continue }
      let isLost = isLost(name)
      // A host that answers tells itself.
      guard isLost || isKilled(name) && !process.hasHostAnswered, leases.isOver(name, at: now)
      else { continue }
      plan.lose(hostOf: name)
      // Where there is no other host it stays lost: its own may come back.
      guard isStopping || !isLost || plan.canStart(name) else { continue }
      processes.leaseRanOut(name)
    }
  }

  /// Asks the hosts that are lost whether they are back.
  func askLostHosts() {
    guard let engine, let lost = plan.hosts?.lost else { return }
    for host in lost {
      let step = engine.step(ofHost: host)
      engine.ask(step) { [weak self] verdict in
        // Nobody else may tell that Slurm has taken it out of the job: the sruns there are gone.
        guard verdict != .unknown else {
          self?.engine?.lost(step)
          return
        }
        self?.plan.find(host)
        self?.goOnLaunching()
      }
    }
  }
}
