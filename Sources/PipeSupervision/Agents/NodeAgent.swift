import CProcess
import Glibc
import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// Starts, ends and observes the process of a node on the agent's host. The commands come from an
/// orchestrator, which can be on another host.
///
/// ``AgentStateMachine`` makes the decisions. When the agent ends for any reason, the node's
/// process ends as well.
package final class NodeAgent {
  /// The identity of the agent, and the address of its orchestrator.
  package struct Options {
    package var node: String
    /// The agent's own key pair, and the address of the orchestrator.
    package var controlAccess: (pair: CurveKeyPair, control: ControlAddress)
    /// The address on which the node must listen: a numeric IPv4 address.
    package var address: String
    /// The name of the host, for display.
    package var host: String?

    package init(
      node: String, key: (pair: CurveKeyPair, control: ControlAddress), address: String,
      host: String?
    ) {
      self.node = node
      self.controlAccess = key
      self.address = address
      self.host = host
    }
  }

  private let options: Options
  private let loop = PollLoop()
  private let context = Context()
  private let socket: Socket
  private let controlEndpoint: PeerEndpoint
  private let signals: SignalDescriptor
  private let probes: ProbeSocket
  private let session = UInt64.random(in: AgentReport.sessionRange)
  private var machine = AgentStateMachine()
  private var child: ChildProcess?
  private var splitters: [LogStream: LogLineSplitter] = [:]
  private var registrations: [LogStream: PollLoop.Registration] = [:]
  private var lastNote: AgentNodeState?
  private var lastMessageAt: ContinuousClock.Instant?
  private var connectedAt = ContinuousClock.Instant.now
  private var hasContact = true
  private var exitCode: Int32 = 0
  /// The queue for standard output. Because of the queue, a stalled reader does not delay the
  /// agent.
  private let outputQueue: OutputQueue
  /// The queue for standard error.
  private let errorQueue: OutputQueue

  private static let reportInterval: Duration = .seconds(1)
  /// The interval of reports while the agent has no contact with the orchestrator.
  private static let searchInterval: Duration = .milliseconds(200)
  /// The time without an answer after which the agent reconnects. Another agent with the same name
  /// may have received the answers instead.
  private static let silenceTimeout: Duration = .seconds(3)

  /// Creates an agent, and blocks the signals that the agent handles. Call this before the process
  /// starts its first thread.
  package init(_ options: Options) throws {
    self.options = options
    signals = try SignalDescriptor([.interrupt, .terminate, .hangUp, .child])
    outputQueue = OutputQueue(STDOUT_FILENO)
    errorQueue = OutputQueue(STDERR_FILENO)
    guard let control = PublicKey(options.controlAccess.control.key) else {
      throw KeyFileError.missingControlAddress("agent.key")
    }
    controlEndpoint = PeerEndpoint(
      options.controlAccess.control.endpoint, key: control, own: options.controlAccess.pair)
    socket = try Socket(.dealer, in: context)
    try socket.setRoutingID(WireName.agent(ofNode: options.node))
    try socket.setMaximumMessage(byteCount: WireLimits.maximumMessageByteCount)
    // No reports are queued while the agent is disconnected, because queued reports would be
    // outdated when they are sent.
    try socket.sendOnlyWhenConnected()
    probes = try ProbeSocket(of: options.node, in: context)
  }

  /// Runs until the agent must end. Returns the exit code of the agent.
  package func run() throws -> Int32 {
    try socket.connect(to: controlEndpoint)
    log(
      "the agent of node '\(options.node)' connects to the orchestrator at \(controlEndpoint.endpoint)"
    )
    loop.add(socket, for: self) { $0.readFrames() }
    loop.add(descriptor: signals.descriptor, for: self) { $0.readSignals() }
    loop.add(probes.socket, for: self) { $0.answerProbes() }
    sendPeriodicReport()
    withExtendedLifetime(self) { loop.run() }
    probes.close()
    socket.setLinger(milliseconds: 500)
    socket.close()
    for queue in [outputQueue, errorQueue] { queue.drain(patience: .seconds(2)) }
    return exitCode
  }

  // MARK: The agent's state machine

  private func handle(_ input: AgentStateMachine.Input) {
    for action in machine.handle(input) {
      switch action {
      case .start(let launch): start(launch)
      case .kill(let signal): child?.signal(signal, group: signal == .kill)
      case .report: sendReport()
      case .end(let isDisplaced):
        exitCode = isDisplaced ? 1 : 0
        loop.stop()
      }
    }
  }

  private func start(_ launch: AgentLaunch) {
    do {
      if let directory = launch.directory {
        try FileSystem.makeDirectories(directory, mode: 0o700)
      }
      let keys = try Self.pipe(holding: launch.key)
      defer { close(keys) }
      let command = ChildCommand(
        path: launch.program, arguments: launch.arguments,
        environment: ProcessEnvironment.current.merging(launch.environment) { _, new in new }
          .merging([HelperProcesses.markerVariable: marker(of: launch.incarnation)]) { _, new in new
          },
        input: keys)
      let child = try ChildProcess.spawn(command)
      self.child = child
      splitters = [:]
      for (stream, descriptor) in [
        (LogStream.out, child.outputDescriptor), (.err, child.errorDescriptor),
      ] {
        registrations[stream] = loop.add(descriptor: descriptor, for: self) {
          $0.read(descriptor, as: stream)
        }
      }
      handle(.started(pid: child.pid))
    } catch {
      handle(.startFailed(reason: "\(error)"))
    }
  }

  /// Returns the value of the environment variable by which the agent finds the helpers of a
  /// process that has ended.
  private func marker(of incarnation: UInt64) -> String {
    "agent-\(session)/\(options.node)/\(incarnation)"
  }

  /// Returns the read end of a pipe that contains a text.
  private static func pipe(holding text: String) throws -> Int32 {
    var input: Int32 = -1
    var output: Int32 = -1
    let code = pr_pipe(&input, &output)
    guard code == 0 else { throw SystemError("pipe", code: code) }
    defer { close(output) }
    do {
      // The write does not block, since a key file is far smaller than the capacity of a pipe.
      try FileSystem.write(Array(text.utf8), to: output, path: "pipe for the keys")
    } catch {
      close(input)
      throw error
    }
    return input
  }

  // MARK: The node's process

  /// Reads the pending output of a pipe of the process. Sends this output to the orchestrator, and
  /// writes it to the agent's own output.
  private func read(_ descriptor: Int32, as stream: LogStream) {
    var splitter = splitters[stream] ?? LogLineSplitter()
    let (read, isOpen) = splitter.drain(descriptor)
    splitters[stream] = splitter
    if !isOpen, let registration = registrations.removeValue(forKey: stream) {
      loop.remove(registration)
    }
    guard !read.isEmpty, let incarnation = machine.process?.incarnation else { return }
    let text = read.map { $0 + "\n" }.joined()
    (stream == .out ? outputQueue : errorQueue).append(Array(text.utf8))
    send(.output, AgentOutput(incarnation: incarnation, isError: stream == .err, lines: read))
  }

  private func reap() {
    guard var child, let exit = child.reap() else { return }
    for stream in registrations.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
      read(stream == .out ? child.outputDescriptor : child.errorDescriptor, as: stream)
    }
    for registration in registrations.values { loop.remove(registration) }
    registrations = [:]
    child.closePipes()
    self.child = nil
    if let incarnation = machine.process?.incarnation {
      HelperProcesses.kill(of: [marker(of: incarnation)])
    }
    handle(.ended(exit))
  }

  private func readSignals() {
    while let signal = signals.next() {
      if signal.number == SIGCHLD {
        reap()
        ChildProcess.reapOrphans()
      } else {
        handle(.leave)
      }
    }
  }

  // MARK: The connection to the orchestrator

  private func readFrames() {
    while socket.receive({ _, bytes in
      do {
        let header = try FrameHeader(bytes)
        try handleFrame(header, Array(bytes[FrameHeader.byteCount...]))
      } catch {
        log("ignored \(error) from the orchestrator")
      }
    }) {}
  }

  private func handleFrame(_ header: FrameHeader, _ body: [UInt8]) throws {
    recordContact()
    switch header.kind {
    case .launch: handle(.launch(try JSONRecord.decode(AgentLaunch.self, from: body)))
    case .signal: handle(.signal(try JSONRecord.decode(AgentSignal.self, from: body)))
    case .nodeState: lastNote = try JSONRecord.decode(AgentNodeState.self, from: body)
    case .displaced:
      log(
        "another agent of node '\(options.node)' has replaced this agent; this agent and its "
          + "process end"
      )
      handle(.displaced)
    default: throw FrameError.kind(header.kind.rawValue)
    }
  }

  private func recordContact() {
    if lastMessageAt == nil || !hasContact {
      log("connected to the orchestrator at \(controlEndpoint.endpoint)")
    }
    lastMessageAt = .now
    hasContact = true
  }

  /// Sends a report, and schedules the next report.
  private func sendPeriodicReport() {
    sendReport()
    if let lastMessageAt, .now - lastMessageAt > Self.silenceTimeout { reconnect() }
    let isFound = hasContact && lastMessageAt != nil
    loop.schedule(after: isFound ? Self.reportInterval : Self.searchInterval, for: self) {
      $0.sendPeriodicReport()
    }
  }

  private func reconnect() {
    if hasContact {
      hasContact = false
      lastNote = nil
      log(
        "no message from the orchestrator for \(Self.silenceTimeout.shortText); the node keeps running, "
          + "and the agent reconnects to "
          + controlEndpoint.endpoint)
    }
    guard .now - connectedAt > Self.silenceTimeout else { return }
    connectedAt = .now
    socket.disconnect(controlEndpoint.endpoint)
    try? socket.connect(to: controlEndpoint)
    sendReport()
  }

  private func sendReport() {
    send(
      .agent,
      AgentReport(
        node: options.node, session: session, address: options.address, host: options.host,
        process: machine.process, isLeaving: machine.isLeaving))
  }

  private func send(_ kind: FrameKind, _ record: some Encodable) {
    guard let body = try? JSONRecord.encode(record) else { return }
    socket.send(FrameHeader(kind, incarnationOrSession: session), body: body)
  }

  private func answerProbes() {
    probes.answer {
      AgentProbe(node: options.node, note: lastNote, hasContact: hasContact && lastMessageAt != nil)
    }
  }

  private func log(_ text: String) { errorQueue.append(Array("agent: \(text)\n".utf8)) }
}

/// The decisions of an agent, without side effects.
///
/// The agent runs one process at a time, and starts each process only once. In its reports, the
/// agent describes the last process that it was commanded to start, even after that process has
/// ended.
package struct AgentStateMachine: Sendable {
  package enum Input: Hashable, Sendable {
    case launch(AgentLaunch)
    case signal(AgentSignal)
    /// The result of ``Action/start(_:)``.
    case started(pid: Int32)
    case startFailed(reason: String)
    /// The process has ended, and all of its output has been sent.
    case ended(ProcessExit)
    /// The agent must end, after its process has stopped gracefully.
    case leave
    /// Another agent has replaced this agent.
    case displaced
  }

  package enum Action: Hashable, Sendable {
    case start(AgentLaunch)
    case kill(Signal)
    /// Report the stage of the process to the orchestrator.
    case report
    /// End the agent.
    case end(isDisplaced: Bool)
  }

  private enum Leaving: Hashable, Sendable { case no, gracefully, displaced }

  /// The last process that the agent was commanded to start.
  package private(set) var process: AgentReport.Process?
  private var leaving = Leaving.no

  package init() {}

  package var isLeaving: Bool { leaving != .no }

  package mutating func handle(_ input: Input) -> [Action] {
    switch input {
    case .launch(let launch): start(launch)
    case .signal(let signal):
      process?.incarnation == signal.incarnation && isRunning
        ? [.kill(Signal(number: signal.number))] : [.report]
    case .started(let pid): setStage(.running(pid: pid))
    case .startFailed(let reason): setStage(.notStarted(reason: reason)) + endIfLeaving()
    case .ended(.exited(let code)): setStage(.exited(code: code)) + endIfLeaving()
    case .ended(.signalled(let number)): setStage(.signalled(number: number)) + endIfLeaving()
    case .ended: []
    case .leave: leave()
    case .displaced: displace()
    }
  }

  private var isRunning: Bool { process?.isRunning == true }

  private mutating func start(_ launch: AgentLaunch) -> [Action] {
    // A repeated command must not start the process again, and no process is started while another
    // process runs.
    guard !isLeaving, !isRunning, launch.incarnation > process?.incarnation ?? 0 else {
      return [.report]
    }
    process = AgentReport.Process(incarnation: launch.incarnation, .running(pid: 0))
    return [.start(launch)]
  }

  private mutating func setStage(_ stage: AgentReport.Process.Stage) -> [Action] {
    process?.stage = stage
    return [.report]
  }

  private func endIfLeaving() -> [Action] {
    isLeaving ? [.end(isDisplaced: leaving == .displaced)] : []
  }

  private mutating func leave() -> [Action] {
    // The first request stops the process gracefully. A second request kills the process.
    let signal: Signal = isLeaving ? .kill : .terminate
    if leaving == .no { leaving = .gracefully }
    return isRunning ? [.report, .kill(signal)] : [.report] + endIfLeaving()
  }

  private mutating func displace() -> [Action] {
    leaving = .displaced
    return isRunning ? [.kill(.kill)] : endIfLeaving()
  }
}
