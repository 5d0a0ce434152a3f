import CProcess
import Glibc
import PipeClient
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// Starts, ends and reads the process of a node on the agent's host, as commanded by an orchestrator
/// that may be on another host.
///
/// ``AgentStateMachine`` makes the decisions. The process ends with the agent, however the agent ends.
package final class NodeAgent {
  /// The identity of the agent, and the address of its orchestrator.
  package struct Options {
    package var node: String
    /// The agent's own key pair, and the address of the orchestrator.
    package var key: (pair: CurveKeyPair, control: ControlAddress)
    /// The address on which the node must listen: a numeric IPv4 address.
    package var address: String
    /// The name of the host, for display.
    package var host: String?

    package init(
      node: String, key: (pair: CurveKeyPair, control: ControlAddress), address: String,
      host: String?
    ) {
      self.node = node
      self.key = key
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
  private let session = UInt64.random(in: AgentReport.sessions)
  private var machine = AgentStateMachine()
  private var child: ChildProcess?
  private var splitters: [LogStream: LogLineSplitter] = [:]
  private var registrations: [LogStream: PollLoop.Registration] = [:]
  private var note: AgentNote?
  private var lastMessageAt: ContinuousClock.Instant?
  private var connectedAt = ContinuousClock.Instant.now
  private var isHeard = true
  private var exitCode: Int32 = 0
  /// The queues for standard output and standard error, so that a stalled reader does not delay the agent.
  private let output: OutputQueue
  private let errors: OutputQueue

  private static let interval: Duration = .seconds(1)
  /// The interval of reports while the orchestrator does not answer.
  private static let searchInterval: Duration = .milliseconds(200)
  /// The time without an answer after which the agent reconnects: another agent of the same name may
  /// have taken over the old connection.
  private static let silence: Duration = .seconds(3)

  /// Creates an agent, which blocks the signals that it handles. Must be called before any thread starts.
  package init(_ options: Options) throws {
    self.options = options
    signals = try SignalDescriptor([.interrupt, .terminate, .hangUp, .child])
    output = OutputQueue(STDOUT_FILENO)
    errors = OutputQueue(STDERR_FILENO)
    guard let control = PublicKey(options.key.control.key) else {
      throw KeyFileError.missingControlAddress("agent.key")
    }
    controlEndpoint = PeerEndpoint(
      options.key.control.endpoint, key: control, own: options.key.pair)
    socket = try Socket(.dealer, in: context)
    try socket.setRoutingID(WireName.agent(ofNode: options.node))
    try socket.setMaximumMessage(byteCount: WireLimits.messageByteCount)
    // Reports are not queued while disconnected, because they would be outdated later.
    try socket.sendOnlyWhenConnected()
    probes = try ProbeSocket(of: options.node, in: context)
  }

  /// Runs until the agent must end. Returns the exit code.
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
    for queue in [output, errors] { queue.drain(patience: .seconds(2)) }
    return exitCode
  }

  // MARK: The state machine

  private func handle(_ input: AgentStateMachine.Input) {
    for action in machine.handle(input) {
      switch action {
      case .start(let launch): start(launch)
      case .kill(let signal): child?.signal(signal, group: signal == .kill)
      case .report: report()
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
          .merging([HelperProcesses.variable: marker(of: launch.incarnation)]) { _, new in new },
        input: keys)
      let child = try ChildProcess.spawn(command)
      self.child = child
      splitters = [:]
      for (stream, descriptor) in [(LogStream.out, child.output), (.err, child.error)] {
        registrations[stream] = loop.add(descriptor: descriptor, for: self) {
          $0.read(descriptor, as: stream)
        }
      }
      handle(.started(pid: child.pid))
    } catch {
      handle(.startFailed(reason: "\(error)"))
    }
  }

  /// Returns the marker by which the helpers of a process are found after the process has ended.
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
      // A key file is far smaller than the capacity of a pipe.
      try FileSystem.write(Array(text.utf8), to: output, path: "pipe for the keys")
    } catch {
      close(input)
      throw error
    }
    return input
  }

  // MARK: The process

  /// Reads the pending output of one of the process's pipes, sends it to the orchestrator, and writes
  /// it to the agent's own output.
  private func read(_ descriptor: Int32, as stream: LogStream) {
    var splitter = splitters[stream] ?? LogLineSplitter()
    let (read, isOpen) = splitter.drain(descriptor)
    splitters[stream] = splitter
    if !isOpen, let registration = registrations.removeValue(forKey: stream) {
      loop.remove(registration)
    }
    guard !read.isEmpty, let incarnation = machine.process?.incarnation else { return }
    let text = read.map { $0 + "\n" }.joined()
    (stream == .out ? output : errors).append(Array(text.utf8))
    send(.output, AgentOutput(incarnation: incarnation, isError: stream == .err, lines: read))
  }

  private func reap() {
    guard var child, let exit = child.reap() else { return }
    for stream in registrations.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
      read(stream == .out ? child.output : child.error, as: stream)
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

  // MARK: The orchestrator

  private func readFrames() {
    while socket.receive({ _, bytes in
      do {
        let header = try FrameHeader(bytes)
        try take(header, Array(bytes[FrameHeader.byteCount...]))
      } catch {
        log("ignored \(error) from the orchestrator")
      }
    }) {}
  }

  private func take(_ header: FrameHeader, _ body: [UInt8]) throws {
    recordContact()
    switch header.kind {
    case .launch: handle(.launch(try JSONRecord.decode(AgentLaunch.self, from: body)))
    case .signal: handle(.signal(try JSONRecord.decode(AgentSignal.self, from: body)))
    case .nodeState: note = try JSONRecord.decode(AgentNote.self, from: body)
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
    if lastMessageAt == nil || !isHeard {
      log("connected to the orchestrator at \(controlEndpoint.endpoint)")
    }
    lastMessageAt = .now
    isHeard = true
  }

  /// Sends a report, and schedules the next one.
  private func sendPeriodicReport() {
    report()
    if let lastMessageAt, .now - lastMessageAt > Self.silence { reconnect() }
    let isFound = isHeard && lastMessageAt != nil
    loop.schedule(after: isFound ? Self.interval : Self.searchInterval, for: self) {
      $0.sendPeriodicReport()
    }
  }

  private func reconnect() {
    if isHeard {
      isHeard = false
      note = nil
      log(
        "no message from the orchestrator for \(Self.silence.shortText); the node keeps running, "
          + "and the agent reconnects to "
          + controlEndpoint.endpoint)
    }
    guard .now - connectedAt > Self.silence else { return }
    connectedAt = .now
    socket.disconnect(controlEndpoint.endpoint)
    try? socket.connect(to: controlEndpoint)
    report()
  }

  private func report() {
    send(
      .agent,
      AgentReport(
        node: options.node, session: session, address: options.address, host: options.host,
        process: machine.process, isLeaving: machine.isLeaving))
  }

  private func send(_ kind: FrameKind, _ record: some Encodable) {
    guard let body = try? JSONRecord.encode(record) else { return }
    socket.send(FrameHeader(kind, number: session), body: body)
  }

  private func answerProbes() {
    probes.answer {
      AgentProbe(node: options.node, note: note, isHeard: isHeard && lastMessageAt != nil)
    }
  }

  private func log(_ text: String) { errors.append(Array("agent: \(text)\n".utf8)) }
}

/// The decisions of the agent of a node, which starts the node's process on its host; a pure value.
///
/// The agent runs one process at a time, and none twice. The process that it was commanded to start
/// remains the last one, whatever happens to it, until a command for a later process arrives.
package struct AgentStateMachine: Sendable {
  package enum Input: Hashable, Sendable {
    case launch(AgentLaunch)
    case signal(AgentSignal)
    /// The result of ``Action/start(_:)``.
    case started(pid: Int32)
    case startFailed(reason: String)
    /// The process has ended, and all of its output has been sent.
    case ended(ProcessExit)
    /// The agent itself must end, after its process has ended in order.
    case leave
    /// Another agent has replaced this one.
    case displaced
  }

  package enum Action: Hashable, Sendable {
    case start(AgentLaunch)
    case kill(Signal)
    /// Report the changes to the orchestrator.
    case report
    /// End the agent.
    case end(isDisplaced: Bool)
  }

  private enum Leaving: Hashable, Sendable { case no, inOrder, displaced }

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
    // A repeated command is executed once. No process is started while another one runs.
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
    // A second request kills the process at once.
    let signal: Signal = isLeaving ? .kill : .terminate
    if leaving == .no { leaving = .inOrder }
    return isRunning ? [.report, .kill(signal)] : [.report] + endIfLeaving()
  }

  private mutating func displace() -> [Action] {
    leaving = .displaced
    return isRunning ? [.kill(.kill)] : endIfLeaving()
  }
}
