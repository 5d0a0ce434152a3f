import PipeClient
import PipeMachines
import PipeSystem
import PipeWire

/// Processes that agents start, where the orchestrator starts none itself.
///
/// An agent says again and again what it runs, and is told again what it has not done. A process that it was told to
/// start may run from then on, until it says how that has ended, or another agent is in its place.
extension Supervisor {
  /// How soon an agent is told once more to start what it has not.
  private static let launchPatience: Duration = .seconds(2)

  // MARK: What agents say

  func take(_ header: FrameHeader, _ body: [UInt8], fromAgentOf name: String) throws {
    switch header.kind {
    case .agent:
      let report = try JSONRecord.decode(AgentReport.self, from: body)
      guard report.node == name else { throw FrameError.body(.agent) }
      take(report)
    case .output:
      processes.take(try JSONRecord.decode(AgentOutput.self, from: body), of: name)
    default: throw FrameError.kind(header.kind.rawValue)
    }
  }

  private func take(_ report: AgentReport) {
    let name = report.node
    switch agents.take(report, at: .now) {
    case .displaced: return control.send(.displaced, toAgentOf: name)
    case .another:
      reporter.warning("the agent of node '\(name)' is another one now\(report.place)")
    case .present: break
    }
    plan.settle(name, at: report.address, on: report.host)
    if let run = processes[name]?.agent {
      compare(run, with: report)
    } else {
      end(report.process, of: name)
      outnumber(name, by: report.process)
    }
    goOnLaunching()
    note(name)
  }

  /// Takes what has become of the process that its agent is to run.
  private func compare(_ run: AgentRun, with report: AgentReport) {
    let name = report.node
    guard let incarnation = processes[name]?.incarnation else { return }
    if let session = run.session, session != report.session {
      guard agents.hasEnded(session: session, of: name, at: .now) else { return }
      // Its process has ended with the agent that ran it.
      return processes.hasEnded(elsewhere: name)
    }
    guard let process = report.process, process.incarnation == incarnation else {
      // One of a former orchestrator's that this agent does not run has ended with another agent.
      guard let launch = run.launch else { return processes.hasEnded(elsewhere: name) }
      end(report.process, of: name)
      if report.isLeaving { return processes.hasEnded(elsewhere: name) }
      if run.toldAt.map({ .now - $0 > Self.launchPatience }) ?? true {
        send(launch, for: run, of: name)
      }
      return
    }
    switch process.stage {
    case .running(let pid):
      if pid != 0 { facts[name]?.pidElsewhere = pid }
      run.sendSignalAgain()
    case .exited(let code): ended(name, .exited(code: code), report)
    case .signalled(let number): ended(name, .signalled(number: number), report)
    case .notStarted(let reason): processes.didNotStart(name, because: reason)
    }
  }

  private func ended(_ name: String, _ exit: ProcessExit, _ report: AgentReport) {
    guard report.isLeaving, lifecycle[name]?.state.isHeld != true else {
      return processes.endedAtAgent(name, exit)
    }
    // It has not done what it had to: the next agent starts it again.
    handle(.node(name, .complained(reason: "its agent was told to end\(report.place)")))
    processes.endedAtAgent(name, .unseen(isCertain: true))
  }

  /// Ends a process that is not the one which is wanted, before that is started.
  private func end(_ process: AgentReport.Process?, of name: String) {
    guard let process, process.isRunning else { return }
    control.send(
      .signal, AgentSignal(incarnation: process.incarnation, number: Signal.kill.number),
      toAgentOf: name)
  }

  /// Numbers the next process above those that its agent has run: where the state directory was lost, nothing else
  /// tells of them.
  private func outnumber(_ name: String, by process: AgentReport.Process?) {
    guard let process, let node = lifecycle[name], node.incarnation <= process.incarnation else {
      return
    }
    handle(.node(name, .outnumbered(by: Int(clamping: process.incarnation))))
  }

  /// Tells an agent what becomes of its node.
  private func note(_ name: String) {
    guard let node = lifecycle[name] else { return }
    control.send(
      .noted, AgentNote(state: node.state.name, isRunning: node.state == .running), toAgentOf: name)
  }

  // MARK: Starting

  /// Whether a node can be started at once; else that is done when its agent is there.
  func hasAgent(_ name: String, incarnation: Int) -> Bool {
    let isAway = isAgentAway(name)
    if isAway { tell(.awaitingAgent, of: name) }
    return turns.begin(name, incarnation: incarnation, on: name, isLost: isAway, at: .now)
  }

  /// Whether a node is one that its agent has to start, and cannot now.
  func isAgentAway(_ name: String) -> Bool {
    plan[name]?.hasAgent == true && !agents.canStart(name, at: .now)
  }

  /// Has its agent start the process of a node.
  func launch(_ node: LaunchPlan.Node, as record: ProcessRecord) throws -> NodeLifecycle.Input {
    let name = node.name
    guard let report = agents.report(of: name, at: .now) else {
      return .spawnFailed(reason: "its agent is not there")
    }
    let launch = AgentLaunch(
      incarnation: record.incarnation, program: node.information.program,
      arguments: arguments(of: node, incarnation: record.incarnation),
      environment: plan.ownEnvironment(of: node),
      directory: plan.journalOfProcess(name).map(FileSystem.directory),
      key: deployed?.secret(of: name) ?? "")
    let run = AgentRun(session: report.session, launch: launch) { [weak self] signal in
      self?.send(signal, to: record.incarnation, of: name)
    }
    try mark(record, session: report.session)
    try processes.begin(run, as: record)
    facts[name]?.take(started: record)
    send(launch, for: run, of: name)
    return .spawned(pid: 0)
  }

  private func send(_ launch: AgentLaunch, for run: AgentRun, of name: String) {
    run.toldAt = .now
    control.send(.launch, launch, toAgentOf: name)
  }

  private func send(_ signal: Signal, to incarnation: UInt64, of name: String) {
    control.send(
      .signal, AgentSignal(incarnation: incarnation, number: signal.number), toAgentOf: name)
  }

  // MARK: What became of them

  /// Finds out what became of a process that is not heard, from its agent.
  func askAgent(of name: String) {
    guard isLost(name), let node = lifecycle[name],
      let report = agents.report(of: name, at: .now), report.process?.isRunning == true,
      // Behind a network that has just healed the agent may be heard first.
      agents.timeHeard(name, at: .now) > node.timeouts.heartbeat
    else { return }
    handle(.node(name, .present))
  }

  // MARK: Adoption

  /// Takes over a process that its agent runs since before this orchestrator.
  func adopt(_ mark: AgentMark) {
    let record = mark.record
    if let host = record.launch.host {
      processes.adopt(lodger: record, in: host)
    } else {
      let run = AgentRun(session: mark.session, launch: nil) { [weak self] signal in
        self?.send(signal, to: record.incarnation, of: record.node)
      }
      do {
        try processes.begin(run, as: record)
      } catch {
        reporter.warning("\(error)")
      }
    }
    facts[record.node]?.take(adopted: record)
    sendGreeting(to: record.node)
  }

  /// Writes down that a process is to run, before it can: whoever comes after this orchestrator has to know of it.
  func mark(_ record: ProcessRecord, session: UInt64?) throws {
    guard let key = deployed?.key(of: record.node) else { return }
    try AgentMark(record: record, session: session, key: key, endpoints: nil).write(in: directories)
  }

  /// Writes down where the process of a node is bound, before anybody else is told.
  func markEndpoints(_ endpoints: NodeEndpoints, of name: String) {
    guard plan[name]?.hasAgent == true, deployed?.endpoints(of: name) != endpoints,
      let process = processes[name], let launch = facts[name]?.launch,
      let key = deployed?.key(of: name), let node = plan[name]
    else { return }
    let record = ProcessRecord(
      node: name, incarnation: process.incarnation, launch: launch, isDetached: true,
      dependencies: node.supervision.dependencies.map(\.node),
      stopTimeout: node.supervision.timeouts.stop, startedAt: facts[name]?.startedAt ?? 0)
    do {
      try AgentMark(
        record: record, session: process.agent?.session, key: key, endpoints: endpoints
      ).write(in: directories)
    } catch {
      reporter.warning("\(error)")
    }
  }
}

extension AgentReport {
  /// Where it is, for a sentence.
  fileprivate var place: String { host.map { ", on host \($0)" } ?? "" }
}

extension Supervisor.Options {
  /// The processes that are taken over, by node.
  var survivors: [String: NodeLifecycle.Survivor] {
    var survivors = adopted.compactMapValues { survivor in
      survivor.record.map {
        NodeLifecycle.Survivor(
          pid: survivor.process.pid, incarnation: Int(clamping: $0.incarnation))
      }
    }
    for mark in marks {
      survivors[mark.record.node] = NodeLifecycle.Survivor(
        pid: 0, incarnation: Int(clamping: mark.record.incarnation))
    }
    return survivors
  }
}
