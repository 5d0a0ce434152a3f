import FoundationEssentials
import Glibc
import PipeRuntime
import PipeSupervision

/// Runs one topology: launches and supervises its nodes and answers clients, on one thread.
///
/// No event passes through it. What it decides is decided by ``TopologyLifecycle``; this performs.
final class Supervisor {
  /// What is told while it runs.
  protocol Reporter: AnyObject {
    func report(_ report: TopologyReport)
    func report(node: String, _ report: NodeReport)
    /// A line that a node wrote.
    func line(node: String, _ stream: LogStream, _ text: String)
    /// Something that does not belong to a node's life.
    func warning(_ text: String)
    /// Called now and then where ``Supervisor/sample(every:)`` was asked for.
    func refresh(_ directory: TopologyDirectory)
  }

  var plan: LaunchPlan
  /// The change that was told to a client, and may be asked for.
  var shown: ShownChange?
  /// The plan that is in force once what it changes has ended.
  var next: ShownChange?
  /// Whether a file is being checked that is to be applied.
  var isPlanning = false
  var lastPlan: UInt64 = 0
  /// Where files are loaded while the loop goes on.
  lazy var loader = LoopThread { _ in }
  let directories: RuntimeDirectories
  let lock: TopologyLock
  let loop = PollLoop()
  let context = Context()
  let control: Socket
  let reporter: any Reporter
  var lifecycle: TopologyLifecycle
  var processes: [String: NodeProcess] = [:]
  var records: [String: NodeRecord] = [:]
  /// Commands that are answered when their condition holds.
  var waiting: [WaitingCommand] = []
  var survey: Survey?
  var lateAskers: [(peer: [UInt8], id: UInt64)] = []
  /// Sequence 0 is a heartbeat's, of no survey.
  var lastSurvey: UInt64 = 0
  var logs: [String: LogWriter] = [:]
  /// By node: those of whose states others wait for one.
  var stateWatches: [String: StateWatch] = [:]
  var garbage: UInt64 = 0
  /// The processes to take over at the start.
  let adopted: [String: Survivor]
  /// Whether nodes go on when this process is killed.
  let isDetached: Bool
  /// Why the last starts could not be written down; then nobody is started.
  private(set) var countingProblem: String?
  private(set) var incarnations: Incarnations
  private let signals: SignalDescriptor
  private var deadlineTimer: TimerQueue.ID?
  private var outcome: TopologyLifecycle.Outcome?
  private(set) var isStopping = false

  /// What the orchestrator keeps of a node beside its lifecycle.
  struct NodeRecord {
    var reason: String?
    var status: NodeStatus?
    /// Why there is no status.
    var statusProblem: StatusProblem?
    /// Whether its process was found to tell nothing of use; it is told once.
    var isMisreporting = false
    /// Whether its sockets were found to be missing; it is told once.
    var isUnreachable = false
    /// Unit: nanoseconds since 1970.
    var startedAt: Int64?
    var description: MachineDescription?
    /// What its last process was started as.
    var launch: ProcessRecord.Launch?
    /// The last lines that it wrote before it failed.
    var lastLines: [String] = []
  }

  /// Blocks the signals that it takes; call it before any thread starts.
  init(
    plan: LaunchPlan, lock: TopologyLock, signals: SignalDescriptor,
    reporter: any Reporter, adopted: [String: Survivor] = [:], held: Set<String> = [],
    isDetached: Bool = false
  ) throws {
    self.plan = plan
    self.lock = lock
    directories = lock.directories
    self.signals = signals
    self.reporter = reporter
    self.adopted = adopted
    self.isDetached = isDetached
    incarnations = try Incarnations(in: directories)
    lifecycle = TopologyLifecycle(
      plan.nodes.map(\.supervision), incarnations: incarnations.counts,
      survivors: adopted.compactMapValues { survivor in
        survivor.record.map {
          NodeLifecycle.Survivor(
            pid: survivor.process.pid, incarnation: Int(clamping: $0.incarnation))
        }
      }, held: held, seed: .random(in: .min ... .max))
    control = try Socket(.router, in: context)
    try control.setHighWaterMark(0)
    try control.setMaximumMessage(byteCount: WireLimits.messageByteCount)
    try control.bind(plan.control)
    for node in plan.nodes {
      let name = node.information.name
      logs[name] = LogWriter(node: name, in: directories)
      records[name] = NodeRecord(description: node.description)
    }
  }

  /// Runs until every process has ended. Returns how it went.
  func run() -> TopologyLifecycle.Outcome {
    loop.add(control, for: self) { $0.readControl() }
    loop.add(descriptor: signals.descriptor, for: self) { $0.readSignals() }
    scheduleHeartbeat()
    handle(.start)
    // The loop does not keep alive whom it calls back.
    withExtendedLifetime(self) { loop.run() }
    control.setLinger(milliseconds: 500)
    control.close()
    return outcome ?? .stopped
  }

  /// Asks for an orderly stop; asked again, kills.
  func requestStop(_ reason: TopologyLifecycle.Outcome = .stopped) {
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
        for next in perform(action) { inputs.append(next) }
      }
    }
    scheduleDeadline()
    answerWaiting()
    followAwaitedStates()
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
      countingProblem = "\(error)"
    }
  }

  private func perform(_ action: TopologyLifecycle.Action) -> [TopologyLifecycle.Input] {
    switch action {
    case .report(let report): reporter.report(report)
    case .changedOver: goOver()
    case .finished(let outcome):
      self.outcome = outcome
      loop.stop()
    case .node(let name, let action):
      return perform(action, on: name).map { [.node(name, $0)] } ?? []
    }
    return []
  }

  private func perform(
    _ action: NodeLifecycle.Action, on name: String
  ) -> NodeLifecycle.Input? {
    switch action {
    case .spawn(let incarnation): return spawn(name, incarnation: UInt64(incarnation))
    case .greet: greet(name)
    case .sendConfigure: sendConfiguration(to: name)
    case .sendStart: send(FrameHeader(.start), to: name)
    case .sendStop: send(FrameHeader(.stop), to: name)
    case .kill(let signal): processes[name]?.signal(signal, group: signal == .kill)
    case .report(let report):
      note(report, of: name)
      reporter.report(node: name, report)
    case .nodeFailed, .nodeStopped: break
    }
    return nil
  }

  func note(_ report: NodeReport, of name: String) {
    switch report {
    case .running, .adopted: records[name]?.reason = nil
    case .stopped, .completed:
      // What was wrong with its end is still to be seen.
      records[name]?.reason = lifecycle[name]?.stopProblem.map {
        "\(NodeReport.endedBadly(reason: $0))"
      }
      records[name]?.status?.state = nil
    case .failed(let reason):
      records[name]?.reason = reason
      records[name]?.status?.state = nil
    case .killing, .restarting, .exited, .unkillable:
      records[name]?.reason = report.description
      records[name]?.status?.state = nil
    case .replacing, .waiting, .endedBadly: records[name]?.reason = report.description
    case .starting, .spawned, .saidHello, .adopting, .ready, .stopping, .misreporting: break
    }
    note("\(report)", in: name)
  }

  private func scheduleDeadline() {
    if let deadlineTimer { loop.cancel(deadlineTimer) }
    deadlineTimer = lifecycle.nextDeadline.map { deadline in
      let wait = max(.zero, deadline - .now)
      return loop.schedule(after: wait, for: self) { $0.handle(.tick) }
    }
  }

  // MARK: Heartbeats and signals

  private var pingInterval: Duration {
    let shortest = plan.nodes.map(\.supervision.timeouts.heartbeat).min() ?? .seconds(5)
    return min(.seconds(1), shortest / 5)
  }

  private func scheduleHeartbeat() {
    loop.schedule(after: pingInterval, for: self) {
      $0.pingAll(sequence: 0)
      $0.keepInPlace()
      $0.scheduleHeartbeat()
    }
  }

  /// Ends the run where nobody finds it any more: its nodes would go on beside those of the next one.
  private func keepInPlace() {
    guard !isStopping else { return }
    switch lock.keepInPlace() {
    case .inPlace: reportMissingSockets()
    case .lookedAt: break
    case .restored:
      reporter.warning("'\(directories.lock)' had been removed, and is there again")
    case .gone:
      requestStop(
        TopologyLifecycle.Outcome(
          exitCode: 1,
          reason:
            "the directory '\(directories.runtime)' was removed while the topology ran: nobody "
            + "could reach its nodes any more. Start it again"))
    }
  }

  /// Tells once of each node that clients cannot reach, since somebody has removed its sockets.
  private func reportMissingSockets() {
    for node in plan.nodes {
      let name = node.information.name
      guard lifecycle[name]?.state == .running, records[name]?.isUnreachable == false,
        [node.information.inbox, node.information.feed].contains(where: { !isBound($0) })
      else { continue }
      records[name]?.isUnreachable = true
      reporter.warning(
        "the sockets of node '\(name)' have been removed, and who comes now does not reach it: "
          + "'orchestrator restart \(name)' makes them again")
    }
  }

  private func isBound(_ endpoint: String) -> Bool {
    FileSystem.exists(String(endpoint.dropFirst("ipc://".count)))
  }

  /// Asks the nodes for their status at this interval, and has it shown.
  func sample(every interval: Duration) {
    loop.schedule(after: interval, for: self) {
      $0.reporter.refresh($0.directory())
      $0.pingAll(sequence: 0)
      $0.sample(every: interval)
    }
  }

  /// Stops in order when standard input ends.
  func watchLifeline() {
    var registration: PollLoop.Registration?
    registration = loop.add(descriptor: STDIN_FILENO, for: self) { supervisor in
      var buffer = [UInt8](repeating: 0, count: 256)
      let count = read(STDIN_FILENO, &buffer, buffer.count)
      guard count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) else { return }
      if let registration { supervisor.loop.remove(registration) }
      supervisor.requestStop()
    }
  }

  /// The last lines of the nodes that failed.
  var lastLines: [(node: String, lines: [String])] {
    plan.nodes.compactMap { node in
      let name = node.information.name
      guard case .failed = lifecycle[name]?.state, let lines = records[name]?.lastLines else {
        return nil
      }
      return (name, lines)
    }
  }

  func pingAll(sequence: UInt64) {
    let interval = UInt32(clamping: pingInterval.wholeMilliseconds)
    let ping = FrameHeader(.ping, count: max(1, interval), sequence: sequence)
    for name in processes.keys { send(ping, to: name) }
  }

  private func readSignals() {
    while let signal = signals.next() {
      if signal.number == SIGCHLD { reapChildren() } else { requestStop() }
    }
  }
}
