import Glibc
import PipeClient
import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// Handles frames from the control socket, and adopts processes of a former orchestrator.
extension Supervisor {
  /// The interval at which a greeting is repeated while the node is not connected. The node
  /// reconnects by itself.
  private static let greetingInterval: Duration = .milliseconds(20)
  /// The maximum wait for the answer to a greeting. After this time, the greeting counts as lost.
  private static let answerTimeout: Duration = .seconds(1)

  /// Reads the frames that have arrived from nodes and clients.
  func readFrames() {
    control.read { header, body, peer in
      if let node = control.node(of: peer), facts[node] != nil {
        try handleFrame(header, body, from: node)
      } else if let node = control.nodeOfAgent(peer), plan[node]?.hasAgent == true {
        try engines.agents.handleFrame(header, body, fromAgentOf: node)
      } else if header.kind == .command {
        handle(command: body, from: Requester(peer: peer, id: header.sequence))
      } else {
        throw FrameError.kind(header.kind.rawValue)
      }
    } warn: {
      reporter.warning($0)
    }
  }

  private func handleFrame(_ header: FrameHeader, _ body: [UInt8], from name: String) throws {
    // Frames of an earlier incarnation are ignored.
    guard header.incarnationOrSession == processes[name]?.incarnation else { return }
    switch header.kind {
    case .hello: handleHello(try JSONRecord.decode(NodeHello.self, from: body), from: name)
    case .ready: handle(.node(name, .ready))
    case .renew: renew(name, requestTime: header.sequence)
    case .status:
      recordHeartbeat(of: name)
      publish(deployedNodes?.noticesToRepeat(to: name, has: header.count) ?? [])
      if let problem = facts[name]?.take(status: body) {
        publish(.unreadableStatus(problem), of: name)
      }
      reportNearlyFullDisk(of: name)
      if survey.recordReply(of: name, in: header.sequence) { endSurvey(header.sequence) }
    case .rejected:
      engines.embedded.handleRejection(
        try JSONRecord.decode(EmbeddingRejection.self, from: body), from: name)
    case .stopped where processes[name]?.carrier != nil:
      let reason = String(decoding: body, as: UTF8.self)
      engines.embedded.handleEnd(
        name, because: reason.isEmpty ? nil : reason, exitCode: header.count)
    case .stopped:
      if body.isEmpty {
        processes[name]?.saidGoodbye = true
        if lifecycle[name]?.state.isStoppedOnRequest == true { engines.slurm?.handleGoodbye(name) }
      } else {
        handle(.node(name, .failureReported(reason: String(decoding: body, as: UTF8.self))))
      }
    default: throw FrameError.kind(header.kind.rawValue)
    }
  }

  /// Warns about the disk with a node's journal when it becomes nearly full.
  private func reportNearlyFullDisk(of name: String) {
    guard let node = plan[name], let path = node.information.journal,
      let disk = facts[name]?.status?.journal?.disk,
      diskWatch.take(disk, on: node.hostName)
    else { return }
    reporter.warning(
      "the disk with the journal '\(path)' is \(disk.usedPercent) % full, with "
        + "\(ByteSizeText.rounded(disk.free)) free; a node whose journal has no space ends; free "
        + "some space; 'orchestrator journal --size -p \(plan.topology)' shows the sizes of the "
        + "journals")
  }

  private func handleHello(_ hello: NodeHello, from name: String) {
    if lifecycle[name]?.state.isAdopting == true, hello.temporaryFailure == nil {
      // The node has found this orchestrator by itself, so its hello is not the answer to a
      // greeting.
      guard processes[name]?.isGreeted == true else {
        greet(name)
        return
      }
      if let deployedNodes, hello.phase ?? .greeting != .greeting,
        deployedNodes.endpoints(of: name) == nil
      {
        let reason = "the endpoints of the process are not recorded, and its peers would disconnect"
        return handle(.node(name, .answered(.doesNotMatchPlan(reason: reason))))
      }
    }
    engines.embedded.resendStarts(to: name)
    facts[name]?.remotePid = hello.pid
    facts[name]?.opensPipes = hello.opensPipes == true
    if hello.phase == .running, facts[name]?.isExtended == true {
      // The last configuration may have been lost when the former connection broke.
      sendPipes(to: name)
    }
    engines.slurm?.markHostFound(of: name)
    // A node that has reported its endpoints gets its peer list before its configuration.
    if let endpoints = hello.endpoints {
      recordEndpoints(endpoints, of: name)
      publish(deployedNodes?.store(endpoints, of: name) ?? [])
    }
    if let temporaryFailure = hello.temporaryFailure {
      handle(.node(name, .hello(failure: nil)))
      handle(.node(name, .failureReported(reason: temporaryFailure)))
    } else if lifecycle[name]?.state.isAdopting == true {
      handleHello(answer: hello, from: name)
    } else if hello.phase == .configured, hello.failure == nil {
      // The node has reconnected. The last frames of both sides may have been lost when the former
      // connection broke.
      handle(.node(name, .ready))
    } else {
      handle(.node(name, .hello(failure: hello.failure ?? problem(with: hello, of: name))))
    }
  }

  private func problem(with hello: NodeHello, of name: String) -> String? {
    if hello.node != name { return "the process identifies itself as node '\(hello.node)'" }
    if deployedNodes != nil, hello.endpoints == nil {
      return
        "the process does not report its endpoints; rebuild the program with a version of "
        + "PipeRuntime that supports deployments"
    }
    if processes[name]?.isRemote == false, hello.pid != processes[name]?.pid {
      return "the hello was sent by another process, pid \(hello.pid)"
    }
    return facts[name]?.agrees(with: hello.description) == true
      ? nil
      : "the machine differs from the checked machine, because the program was rebuilt after the "
        + "check; run 'orchestrator apply' to apply the new build"
  }

  /// Sends nodes their peer lists.
  func publish(_ notices: [DeployedNodes.Notice]) {
    for notice in notices {
      control.send(
        FrameHeader(.peers, sequence: notice.number), notice.peerList, to: notice.node)
    }
  }

  // MARK: Adoption of processes

  /// Adopts the process of a node, and asks the process for its state.
  func adopt(_ name: String) {
    guard let node = plan[name], let (record, process) = formerProcess(name) else { return }
    engines[node.placement].adopt(record, process)
    facts[name]?.take(adopted: record)
    sendGreeting(to: name)
  }

  /// Returns the record of a process that a former orchestrator started. If the process is on this
  /// host, returns the process, too.
  private func formerProcess(_ name: String) -> (ProcessRecord, AdoptedProcess?)? {
    if let agentProcess = options.agentProcesses.first(where: { $0.record.node == name }) {
      return (agentProcess.record, nil)
    }
    guard let survivor = options.adoptedProcesses[name], let record = survivor.record else {
      return nil
    }
    return (record, survivor.process)
  }

  func reportUnloggedOutput(of name: String, _ error: any Error) {
    reporter.warning("cannot log the output of node '\(name)': \(error)")
  }

  func sendGreeting(to name: String) {
    guard case .adopting = lifecycle[name]?.state, processes[name] != nil else { return }
    let isSent = greet(name)
    loop.schedule(after: isSent ? Self.answerTimeout : Self.greetingInterval, for: self) {
      // The node may have sent a hello by itself, which must be handled first.
      $0.readFrames()
      $0.sendGreeting(to: name)
    }
  }

  /// Sends a greeting.
  /// - Returns: Whether the node is connected.
  @discardableResult
  private func greet(_ name: String) -> Bool {
    let greeting = NodeGreeting(
      orchestrator: getpid(),
      // A node on another host does not notice the end of this process, so the node continues
      // without an orchestrator.
      isDetached: options.isDetached || processes[name]?.isRemote == true,
      output: engines.local.pipe(of: name, .out), error: engines.local.pipe(of: name, .err))
    let isSent = control.send(FrameHeader(.greet), greeting, to: name) == .queued
    if isSent { processes[name]?.isGreeted = true }
    return isSent
  }

  /// Handles the hello that an adopted process sends as its answer to the greeting.
  private func handleHello(answer hello: NodeHello, from name: String) {
    processes[name]?.handle.engine.didAnswerGreeting(name)
    if let problem = hello.failure { return handle(.node(name, .hello(failure: problem))) }
    guard problem(with: hello, of: name) == nil else {
      let reason = "the machine of the process differs from the checked machine"
      return handle(.node(name, .answered(.doesNotMatchPlan(reason: reason))))
    }
    let input: NodeLifecycle.Input =
      switch hello.phase ?? .greeting {
      case .greeting: .hello(failure: nil)
      case .configured: .answered(.ready)
      case .running: .answered(.running)
      case .draining, .ended: .answered(.ending)
      }
    handle(.node(name, input))
  }
}
