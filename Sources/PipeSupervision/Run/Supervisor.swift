import Glibc
import PipeClient
import PipeSupport
import PipeSystem
import PipeTopology
import PipeTransport
import PipeWire

/// Runs one topology: launches and supervises its nodes and answers clients, on one thread.
///
/// No event passes through it. What it decides is decided by ``TopologyLifecycle``; this performs. What
/// clients ask for is in `Supervisor+Commands.swift`, what nodes report in `Supervisor+Reports.swift`, and
/// what is looked at again and again in `Supervisor+Heartbeats.swift`.
package final class Supervisor {
  /// What is told while it runs.
  package protocol Reporter: AnyObject {
    func report(_ report: TopologyReport)
    func report(node: String, _ report: NodeReport)
    /// A line that a node wrote.
    func line(node: String, _ stream: LogStream, _ text: String)
    /// Something that does not belong to a node's life.
    func warning(_ text: String)
    /// Called now and then where ``Supervisor/sample(every:)`` was asked for.
    func refresh(_ directory: TopologyDirectory)
    /// Called when a new file is in force, with how much it keeps of the orchestrator's own log.
    func keepLog(_ retention: LogRetention)
  }

  /// How it is run.
  package struct Options {
    /// The nodes that are not started.
    package var held: Set<String> = []
    /// The processes to take over at the start.
    package var adopted: [String: Survivor] = [:]
    /// By what these are reached where they are bound for other hosts.
    package var handover: ControlHandover?
    /// The processes that agents run, which a former orchestrator has told of.
    package var marks: [AgentMark] = []
    /// Whether nodes go on when this process is killed.
    package var isDetached = false

    package init(
      held: Set<String> = [], adopted: [String: Survivor] = [:],
      handover: ControlHandover? = nil, marks: [AgentMark] = [], isDetached: Bool = false
    ) {
      self.marks = marks
      self.handover = handover
      self.held = held
      self.adopted = adopted
      self.isDetached = isDetached
    }
  }

  var plan: LaunchPlan
  var change = PendingChange()
  /// Where files are loaded while the loop goes on.
  private(set) lazy var loader = LoopThread { _ in }
  let directories: RuntimeDirectories
  package let loop = PollLoop()
  let control: ControlSocket
  /// Who its nodes are to each other where they are bound for other hosts; `nil` where all are on one.
  let deployed: DeployedNodes?
  /// What starts and ends the processes of nodes, by where they run.
  private(set) lazy var engines = ProcessEngines(
    local: LocalEngine(self), slurm: steps.map { SlurmEngine(self, $0) },
    agents: AgentEngine(self), embedded: EmbeddedEngine(self))
  /// The steps of a Slurm job; `nil` where the topology runs in none.
  private let steps: SlurmSteps?
  let reporter: any Reporter
  let options: Options
  private(set) var lifecycle: TopologyLifecycle
  let processes: NodeProcesses
  /// The program files of the nodes that it starts on its own host.
  var programs = PinnedPrograms()
  var leases: Leases
  /// Whether nodes were started, or were to be.
  var hasBegun = false
  var turns = LaunchTurns()
  var facts: [String: NodeFacts] = [:]
  var waiting = WaitingClients()
  var survey = StatusSurvey()
  private(set) var incarnations: Incarnations
  let lock: TopologyLock
  let files: RuntimeFiles
  private let context = Context()
  private let logs: NodeLogs
  let states: AwaitedStates
  private let signals: SignalDescriptor
  /// Why the last starts could not be written down; then nobody is started.
  private var countingProblem: (any Error)?
  private var deadlineTimer: TimerQueue.ID?
  /// When the nodes are to be asked for a sign of life next.
  var pingDue = ContinuousClock.now
  private var outcome: TopologyLifecycle.Outcome?
  package private(set) var isStopping = false

  /// Blocks the signals that it takes; call it before any thread starts.
  package init(
    plan: LaunchPlan, lock: TopologyLock, signals: SignalDescriptor, reporter: any Reporter,
    _ options: Options = Options()
  ) throws {
    self.plan = plan
    self.lock = lock
    directories = lock.directories
    files = RuntimeFiles(in: lock.directories)
    self.signals = signals
    self.reporter = reporter
    self.options = options
    leases = Leases(
      term: (plan.leaseTerm ?? .zero).clampedNanoseconds, at: BootClock.nanoseconds)
    incarnations = try Incarnations(in: directories)
    lifecycle = TopologyLifecycle(
      plan.nodes.map(\.supervision), incarnations: incarnations.counts,
      survivors: options.survivors, held: options.held, seed: .random(in: .min ... .max))
    let control = try ControlSocket(at: plan.control, in: context)
    self.control = control
    steps = try plan.job.map { [loop] in
      try SlurmSteps($0, environment: ProcessEnvironment.current, loop: loop)
    }
    deployed = try plan.deployment.map { [context, loop, directories] _ in
      try DeployedNodes(
        plan.nodes, at: plan.controlPlace, of: control, in: directories, context, loop: loop,
        after: options.handover, of: options.adopted.keys.sorted()
      ) { reporter.warning("\($0)") }
    }
    for mark in options.marks { deployed?.admit(mark.record.node, by: mark) }
    logs = NodeLogs(in: directories, keeping: plan) { reporter.warning($0) }
    processes = NodeProcesses(in: directories, loop: loop, logs: logs)
    states = AwaitedStates(in: context, loop: loop)
    for node in plan.nodes { facts[node.name] = NodeFacts(description: node.description) }
    processes.observer = self
  }

  /// Runs until every process has ended. Returns how it went.
  package func run() -> TopologyLifecycle.Outcome {
    tellJournals()
    loop.add(control.socket, for: self) { $0.takeFrames() }
    if let network = control.network { loop.add(network, for: self) { $0.takeFrames() } }
    loop.add(descriptor: signals.descriptor, for: self) { $0.readSignals() }
    scheduleHeartbeat()
    begin()
    // The loop does not keep alive whom it calls back.
    withExtendedLifetime(self) { loop.run() }
    processes.helpers.finish()
    control.close()
    steps?.close()
    endLeasing()
    return outcome ?? .stopped
  }

  /// Names the first of the nodes that have failed for good, with its reason; `nil` where none has.
  package var failure: String? { TopologyLifecycle.failure(lifecycle.failedNodes) }

  /// Asks for an orderly stop; asked again, kills.
  package func requestStop(_ reason: TopologyLifecycle.Outcome = .stopped) {
    let input: TopologyLifecycle.Input = isStopping ? .kill(.forced) : .stop(reason)
    isStopping = true
    handle(input)
  }

  // MARK: The state machine

  func handle(_ input: TopologyLifecycle.Input) {
    // Each input's actions are done before those that its actions lead to.
    var inputs = Queue<TopologyLifecycle.Input>()
    inputs.append(input)
    while let input = inputs.popFirst() {
      let actions = lifecycle.handle(input, at: .now)
      count(actions)
      for action in actions {
        if let next = perform(action) { inputs.append(next) }
      }
    }
    scheduleDeadline()
    answerWaiting()
    followAwaitedStates()
    goOnLaunching()
  }

  /// Takes a sign of life, of which there are many: it changes nobody, and so nothing follows from it.
  func takeHeartbeat(of node: String) {
    _ = lifecycle.handle(.node(node, .heartbeat), at: .now)
  }

  /// Writes down the incarnations that are about to start, all in one go.
  private func count(_ actions: [TopologyLifecycle.Action]) {
    var starts: [String: Int] = [:]
    for case .node(let name, .spawn(let incarnation)) in actions { starts[name] = incarnation }
    guard !starts.isEmpty else { return }
    do {
      try incarnations.record(starts)
      countingProblem = nil
    } catch {
      countingProblem = error
    }
  }

  private func perform(_ action: TopologyLifecycle.Action) -> TopologyLifecycle.Input? {
    switch action {
    case .report(.finished(let outcome)): reporter.report(.finished(cause(of: outcome)))
    case .report(let report): reporter.report(report)
    case .changedOver: goOver()
    case .finished(let outcome):
      self.outcome = cause(of: outcome)
      loop.stop()
    case .node(let name, .kill(let signal)):
      if signal == .kill { giveUpLease(of: name) }
      return processes[name]?.handle.engine.signal(signal, to: name)
    case .node(let name, let action): return perform(action, on: name).map { .node(name, $0) }
    }
    return nil
  }

  private func perform(
    _ action: NodeLifecycle.Action, on name: String
  ) -> NodeLifecycle.Input? {
    switch action {
    case .spawn(let incarnation):
      if let node = plan[name],
        !engines[node.placement].canStart(name, incarnation: incarnation)
      {
        return nil
      }
      return spawn(name, incarnation: UInt64(incarnation))
    case .greet: adopt(name)
    case .sendConfigure: tellPipes(to: name)
    case .sendStart: control.send(FrameHeader(.start), to: name)
    case .sendStop:
      control.send(
        FrameHeader(.stop, flags: isStopping ? NodeHandshake.allStopFlag : 0), to: name)
    case .report(let report): tell(report, of: name)
    case .findOut: processes[name]?.handle.engine.findOut(name)
    case .kill, .nodeFailed, .nodeStopped: break
    }
    return nil
  }

  /// Keeps what becomes of a node, and tells it.
  func tell(_ report: NodeReport, of name: String) {
    facts[name]?.take(report, stopProblem: lifecycle[name]?.stopProblem)
    if case .outOfReach = report { abandonAtEnd(name) }
    logs.note("\(report)", of: name)
    reporter.report(node: name, report)
  }

  func spawn(_ name: String, incarnation: UInt64) -> NodeLifecycle.Input {
    guard let node = plan[name] else { return .spawnFailed(reason: "there is no such node") }
    if let countingProblem {
      return .spawnFailed(
        reason: "its start cannot be counted: \(countingProblem)",
        isDiskFull: countingProblem.isDiskFull)
    }
    var record = ProcessRecord(
      node: name, incarnation: incarnation, launch: plan.launch(of: node),
      isDetached: options.isDetached, dependencies: node.supervision.dependencies.map(\.node),
      stopTimeout: node.supervision.timeouts.stop, stopSignal: node.supervision.stopSignal)
    do {
      try deployed?.admit(name, incarnation: incarnation)
      let pid = try engines[node.placement].start(node, as: &record)
      facts[name]?.take(started: record)
      return .spawned(pid: pid)
    } catch {
      leases.forget(name)
      forgetStart(of: name)
      return .spawnFailed(reason: "\(error)", isDiskFull: error.isDiskFull)
    }
  }

  /// How the process of a node is started on its host.
  func command(of node: LaunchPlan.Node, incarnation: UInt64) -> ChildCommand {
    var environment = plan.environment(of: node)
    environment[HelperProcesses.variable] = HelperProcesses.marker(
      of: node.name, incarnation: incarnation, in: directories)
    return ChildCommand(
      path: node.information.program, arguments: arguments(of: node, incarnation: incarnation),
      environment: environment, directory: node.directory,
      deathSignal: options.isDetached ? nil : .kill, leadsSession: options.isDetached)
  }

  /// The program file from which a node's processes are started until somebody asks for another start.
  func pinnedProgram(of node: LaunchPlan.Node) -> PinnedProgram? {
    guard node.placement == .local else { return nil }
    programs.pin(node.information.program, of: node.name)
    return programs[node.name]
  }

  /// No process has come of a start.
  func forgetStart(of name: String) {
    if plan.keys != nil { AgentMark.remove(name, in: directories) }
    deployed?.revoke(name)
  }

  /// The command line of a process that was let in.
  func arguments(of node: LaunchPlan.Node, incarnation: UInt64) -> [String] {
    plan.arguments(of: node, incarnation: incarnation, deployed?.entry(of: node.name)).arguments
  }

  private func scheduleDeadline() {
    if let deadlineTimer { loop.cancel(deadlineTimer) }
    deadlineTimer = lifecycle.nextDeadline.map { deadline in
      let wait = max(.zero, deadline - .now)
      return loop.schedule(after: wait, for: self) {
        $0.creditOwnDelay()
        $0.creditQueueTime()
        $0.handle(.tick)
      }
    }
  }

  func answerWaiting() {
    let answers = waiting.takeAnswered(by: lifecycle) { .ended(cause(of: $0)) }
    for (asker, answer) in answers { control.answer(answer, to: asker) }
  }

  /// Takes the new plan, once nothing runs any more that it changes.
  private func goOver() {
    guard let step = change.takeAsked() else { return }
    let names = Set(step.plan.nodes.map(\.name))
    for name in plan.nodes.map(\.name) where !names.contains(name) {
      logs.note("removed: the topology has it no more", of: name)
      logs.forget(name)
      facts[name] = nil
      programs.release(name)
    }
    for name in step.change.replaced { programs.release(name) }
    plan = step.plan
    logs.keep(plan)
    reporter.keepLog(plan.logs)
    for node in plan.nodes {
      facts[node.name, default: NodeFacts(description: nil)].take(
        changed: node.description, isReplaced: step.change.replaced.contains(node.name))
    }
    lock.goOn(with: plan.file, by: plan.deploymentFile)
    tell(deployed?.goOver(to: plan.nodes) ?? [])
    for entry in step.change.entries {
      if case .takenOver(let aspects) = entry.fate, aspects.contains(.outs) { extend(entry.node) }
    }
  }

  /// Has a node that runs open more pipes.
  private func extend(_ name: String) {
    guard let node = plan[name] else { return }
    do {
      try ProcessRecord.extend(name, by: node.configuration, in: directories)
    } catch {
      // The next orchestrator would not know of them.
      reporter.warning("the pipes that lead from '\(name)' cannot be noted: \(error)")
    }
    facts[name]?.take(extended: plan.launch(of: node))
    tellPipes(to: name)
  }

  /// Tells a node its pipes; one that runs opens those that are not open.
  func tellPipes(to name: String) {
    guard let node = plan[name] else { return }
    control.send(FrameHeader(.configure), node.configuration, to: name)
  }

  // MARK: Signals

  /// Stops in order when standard input ends.
  package func watchLifeline() {
    var registration: PollLoop.Registration?
    registration = loop.add(descriptor: STDIN_FILENO, for: self) { supervisor in
      var buffer = [UInt8](repeating: 0, count: 256)
      let count = read(STDIN_FILENO, &buffer, buffer.count)
      guard count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) else { return }
      if let registration { supervisor.loop.remove(registration) }
      supervisor.requestStop()
    }
  }

  private func readSignals() {
    while let signal = signals.next() {
      if signal.number == SIGCHLD {
        for engine in engines.all { engine.reap() }
        ChildProcess.reapOrphans()
      } else if plan.keys != nil, !isStopping, signal.number != SIGINT {
        leave()
      } else {
        requestStop()
      }
    }
  }

  /// Leaves the nodes as they are, which agents run, for the orchestrator that comes after this one.
  private func leave() {
    reporter.warning("the orchestrator ends; its nodes go on, and the next one takes them over")
    outcome = TopologyLifecycle.Outcome(exitCode: 0)
    loop.stop()
  }
}

extension Supervisor: NodeProcesses.Observer {
  func handle(_ input: NodeLifecycle.Input, of node: String) {
    handle(.node(node, input))
    // It has told that it ends, and nothing is to come in its place.
    if case .unattached = input, processes[node]?.saidGoodbye == true,
      lifecycle[node]?.state.isHeld == true
    {
      engines.slurm?.isLeaving(node)
    }
  }
  func takeRest(of node: String) { states.drain(node) }
  func hasEnded(_ node: String) {
    leases.forget(node)
    if plan.keys != nil { AgentMark.remove(node, in: directories) }
    tell(deployed?.revoke(node) ?? [])
  }

  func takeLastLines(_ lines: [String], of node: String) { facts[node]?.take(lastLines: lines) }

  func line(node: String, _ stream: LogStream, _ text: String) {
    reporter.line(node: node, stream, text)
  }
}

extension Supervisor.Reporter {
  /// Does nothing: most reporters have no log of their own.
  package func keepLog(_ retention: LogRetention) {}
}
