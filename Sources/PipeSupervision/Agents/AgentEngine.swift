import Glibc
import PipeClient
import PipeMachines
import PipeSystem
import PipeWire

/// Runs processes through agents, for topologies whose orchestrator starts no processes itself.
///
/// An agent reports repeatedly which process it runs, and the orchestrator repeats commands that
/// the agent has not executed. After a start command, the orchestrator assumes that the process may
/// be running. The assumption ends when the agent reports the end of the process, or another agent
/// has replaced this agent.
final class AgentEngine: ProcessEngine {
  /// A process that an agent runs, or is about to run.
  final class Handle: ProcessHandle {
    let engine: any ProcessEngine
    /// The session of the agent; `nil` if a former orchestrator started the process and this
    /// orchestrator has not received a report of the agent yet.
    let session: UInt64?
    /// The start command; `nil` if a former orchestrator started the process.
    fileprivate let launch: AgentLaunch?
    /// The time at which the start command was last sent to the agent.
    fileprivate var launchedAt: ContinuousClock.Instant?
    /// The last signal sent to the process. The signal is sent repeatedly until the process has
    /// ended.
    private var lastSignal: Signal?
    private let send: (Signal) -> Void

    fileprivate init(
      _ record: ProcessRecord, session: UInt64?, launch: AgentLaunch?, _ engine: AgentEngine
    ) {
      self.engine = engine
      self.session = session
      self.launch = launch
      send = { [weak engine, incarnation = record.incarnation, node = record.node] signal in
        engine?.send(signal, to: incarnation, of: node)
      }
    }

    let pid: Int32 = 0
    let isRemote = true

    func signal(_ signal: Signal, group: Bool) -> Bool {
      lastSignal = signal
      send(signal)
      return true
    }

    fileprivate func resendSignal() { if let lastSignal { send(lastSignal) } }
  }

  /// The time after which a start command is repeated if the agent has not executed it.
  private static let launchRetryInterval: Duration = .seconds(2)

  private unowned let supervisor: Supervisor
  let processes: NodeProcesses
  /// The agents that are connected.
  private var agents = AgentRegistry()

  init(_ supervisor: Supervisor) {
    self.supervisor = supervisor
    processes = supervisor.processes
  }

  private func handle(of node: String) -> (NodeProcess, Handle)? {
    guard let process = processes[node], let handle = process.handle as? Handle else { return nil }
    return (process, handle)
  }

  // MARK: Reports of agents

  func handleFrame(_ header: FrameHeader, _ body: [UInt8], fromAgentOf name: String) throws {
    switch header.kind {
    case .agent:
      let report = try JSONRecord.decode(AgentReport.self, from: body)
      guard report.node == name else { throw FrameError.body(.agent) }
      handleReport(report)
    case .output: logOutput(try JSONRecord.decode(AgentOutput.self, from: body), of: name)
    default: throw FrameError.kind(header.kind.rawValue)
    }
  }

  private func logOutput(_ output: AgentOutput, of node: String) {
    guard let (process, _) = handle(of: node), process.incarnation == output.incarnation else {
      return
    }
    let stream = output.isError ? LogStream.err : .out
    processes.showOutput(process.outputCapture.log(output.lines, from: stream), of: node, stream)
  }

  private func handleReport(_ report: AgentReport) {
    let name = report.node
    switch agents.record(report, at: .now) {
    case .displaced: return supervisor.control.send(.displaced, toAgentOf: name)
    case .replacement:
      supervisor.reporter.warning(
        "node '\(name)' has a new agent\(report.hostPhrase)")
    case .known: break
    }
    supervisor.plan.assignHost(name, at: report.address, on: report.host)
    if let (process, handle) = handle(of: name) {
      compare(process, handle, with: report)
    } else {
      killUnwantedProcess(report.process, of: name)
      raiseIncarnation(name, by: report.process)
    }
    supervisor.launchQueuedNodes()
    sendNote(name)
  }

  /// Compares the report of an agent with the process that the agent should run.
  private func compare(_ process: NodeProcess, _ handle: Handle, with report: AgentReport) {
    let name = report.node
    if let session = handle.session, session != report.session {
      guard agents.hasEnded(session: session, of: name, at: .now) else { return }
      // The process has ended together with the agent that ran it.
      return finish(process, of: name, as: .unobserved(isCertain: true))
    }
    guard let reported = report.process, reported.incarnation == process.incarnation else {
      // If there is no start command, a former orchestrator started the process through another
      // agent. The process and that agent have both ended.
      guard let launch = handle.launch else {
        return finish(process, of: name, as: .unobserved(isCertain: true))
      }
      killUnwantedProcess(report.process, of: name)
      if report.isLeaving { return finish(process, of: name, as: .unobserved(isCertain: true)) }
      if handle.launchedAt.map({ .now - $0 > Self.launchRetryInterval }) ?? true {
        send(launch, for: handle, of: name)
      }
      return
    }
    switch reported.stage {
    case .running(let pid):
      if pid != 0 { supervisor.facts[name]?.remotePid = pid }
      handle.resendSignal()
    case .exited(let code): handleEnd(process, of: name, .exited(code: code), report)
    case .signalled(let number): handleEnd(process, of: name, .signalled(number: number), report)
    case .notStarted(let reason):
      processes.remove(process, of: name)
      supervisor.handle(.spawnFailed(reason: reason), of: name)
    }
  }

  private func handleEnd(
    _ process: NodeProcess, of name: String, _ exit: ProcessExit, _ report: AgentReport
  ) {
    guard report.isLeaving, supervisor.lifecycle[name]?.state.isStoppedOnRequest != true else {
      return finish(process, of: name, as: exit)
    }
    // The stop of the node was not requested, so the next agent starts the node again.
    supervisor.handle(
      .failureReported(reason: "the agent is shutting down\(report.hostPhrase)"), of: name)
    finish(process, of: name, as: .unobserved(isCertain: true))
  }

  private func finish(_ process: NodeProcess, of name: String, as exit: ProcessExit) {
    guard processes[name] === process else { return }
    processes.finish(process, of: name, as: exit)
  }

  /// Kills a process that should not run. The required process starts afterwards.
  private func killUnwantedProcess(_ process: AgentReport.Process?, of name: String) {
    guard let process, process.isRunning else { return }
    send(.kill, to: process.incarnation, of: name)
  }

  /// Makes the next incarnation of a node higher than the incarnation of the process that the agent
  /// has run. If the state directory was lost, only the agent still knows that incarnation.
  private func raiseIncarnation(_ name: String, by process: AgentReport.Process?) {
    guard let process, let node = supervisor.lifecycle[name],
      node.incarnation <= process.incarnation
    else { return }
    supervisor.handle(.staleIncarnation(by: Int(clamping: process.incarnation)), of: name)
  }

  /// Reports the state of a node to its agent.
  private func sendNote(_ name: String) {
    guard let node = supervisor.lifecycle[name] else { return }
    supervisor.control.send(
      .nodeState, AgentNodeState(state: node.state.name, isRunning: node.state == .running),
      toAgentOf: name)
  }

  // MARK: Starting processes

  func canStart(_ name: String, incarnation: Int) -> Bool {
    let isUnavailable = isAgentUnavailable(name)
    if isUnavailable { supervisor.publish(.awaitingAgent, of: name) }
    return supervisor.launchQueue.begin(
      name, incarnation: incarnation, on: name, isLost: isUnavailable, at: .now)
  }

  /// Whether an agent must start the node, and this agent is not connected or cannot start a
  /// process now.
  func isAgentUnavailable(_ name: String) -> Bool {
    supervisor.plan[name]?.hasAgent == true && !agents.canStart(name, at: .now)
  }

  func launch(_ node: LaunchPlan.Node, updating record: inout ProcessRecord) throws -> Int32 {
    let name = node.name
    guard let report = agents.report(of: name, at: .now) else {
      throw StartError(description: "the agent is not connected")
    }
    let launch = AgentLaunch(
      incarnation: record.incarnation, program: node.information.program,
      arguments: supervisor.arguments(of: node, incarnation: record.incarnation),
      environment: supervisor.plan.agentEnvironment(of: node),
      directory: supervisor.plan.journalOfProcess(name).map(FileSystem.parentDirectory),
      key: supervisor.deployedNodes?.secret(of: name) ?? "")
    let handle = Handle(record, session: report.session, launch: launch, self)
    try supervisor.recordSession(record, session: report.session)
    try add(handle, as: record)
    send(launch, for: handle, of: name)
    return 0
  }

  private func add(_ handle: Handle, as record: ProcessRecord) throws {
    // No process on this host holds a lock on the record file, since the process is on another
    // host.
    close(try record.write(in: processes.directories))
    processes.add(handle, as: record)
  }

  private func send(_ launch: AgentLaunch, for handle: Handle, of name: String) {
    handle.launchedAt = .now
    supervisor.control.send(.launch, launch, toAgentOf: name)
  }

  private func send(_ signal: Signal, to incarnation: UInt64, of name: String) {
    supervisor.control.send(
      .signal, AgentSignal(incarnation: incarnation, number: signal.number), toAgentOf: name)
  }

  // MARK: Processes that send no sign of life

  func checkLiveness(_ name: String) {
    guard supervisor.isLost(name), let node = supervisor.lifecycle[name],
      let report = agents.report(of: name, at: .now), report.process?.isRunning == true,
      // After a network failure, the reports of the agent may arrive before the node's heartbeats.
      agents.connectionTime(name, at: .now) > node.timeouts.heartbeat
    else { return }
    supervisor.handle(.present, of: name)
  }

  // MARK: Adoption of processes

  func adopt(_ record: ProcessRecord, _ process: AdoptedProcess?) {
    let session = supervisor.options.agentProcesses.first { $0.record.node == record.node }?.session
    do {
      try add(Handle(record, session: session, launch: nil, self), as: record)
    } catch {
      supervisor.reporter.warning("\(error)")
    }
  }
}

/// Writes the records of processes that agents run. The next orchestrator reads them.
extension Supervisor {
  /// Writes the record of a process before the process can start.
  func recordSession(_ record: ProcessRecord, session: UInt64?) throws {
    guard let key = deployedNodes?.key(of: record.node) else { return }
    try AgentProcessRecord(record: record, session: session, key: key, endpoints: nil).write(
      in: directories)
  }

  /// Records the endpoints of a node's process, before the node's peers receive them.
  func recordEndpoints(_ endpoints: NodeEndpoints, of name: String) {
    guard plan[name]?.hasAgent == true, deployedNodes?.endpoints(of: name) != endpoints,
      let process = processes[name], let launch = facts[name]?.launch,
      let key = deployedNodes?.key(of: name), let node = plan[name]
    else { return }
    let record = ProcessRecord(
      node: name, incarnation: process.incarnation, launch: launch, isDetached: true,
      dependencies: node.supervision.dependencies.map(\.node),
      stopTimeout: node.supervision.timeouts.stop, startedAt: facts[name]?.startedAt ?? 0)
    do {
      try AgentProcessRecord(
        record: record, session: (process.handle as? AgentEngine.Handle)?.session, key: key,
        endpoints: endpoints
      ).write(in: directories)
    } catch {
      reporter.warning("\(error)")
    }
  }
}

extension AgentReport {
  /// The host of the agent, as part of a sentence.
  fileprivate var hostPhrase: String { host.map { ", on host '\($0)'" } ?? "" }
}

extension Supervisor.Options {
  /// The adopted processes, by node, as input for the lifecycles.
  var survivors: [String: NodeLifecycle.Survivor] {
    var survivors = adoptedProcesses.compactMapValues { survivor in
      survivor.record.map {
        NodeLifecycle.Survivor(
          pid: survivor.process.pid, incarnation: Int(clamping: $0.incarnation))
      }
    }
    for mark in agentProcesses {
      survivors[mark.record.node] = NodeLifecycle.Survivor(
        pid: 0, incarnation: Int(clamping: mark.record.incarnation))
    }
    return survivors
  }
}
