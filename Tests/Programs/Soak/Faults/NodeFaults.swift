import Glibc
import PipeRuntime

/// Injects faults into single nodes. Several such faults may be active at the same time.
///
/// Signals are sent directly to the processes, because the orchestrator may be down. The processes
/// are found by their records.
struct NodeFaults: Sendable {
  private let running: RunningTopology
  private let subject: any SoakSubject
  private let claims: Claims

  /// The maximum time until an orchestrator detects that a suspended process hangs. If the
  /// orchestrator is killed, its successor detects this.
  private static let hangLimit: Duration = .seconds(30)
  private static let connectLimit: Duration = .seconds(5)

  init(_ running: RunningTopology, _ subject: any SoakSubject, _ claims: Claims) {
    self.running = running
    self.subject = subject
    self.claims = claims
  }

  /// - Parameter count: Called when the fault has struck.
  func inject(_ fault: Fault, _ count: () -> Void) async throws {
    switch fault.kind {
    case .kill:
      if signal(.kill, to: fault.node) != nil { count() }
    case .killTwo:
      let both = (signal(.kill, to: fault.node), signal(.kill, to: fault.other))
      if both.0 != nil, both.1 != nil { count() }
    case .pause, .longPause:
      guard claims.claimForSuspension(fault.node) else { return }
      defer { claims.release(fault.node) }
      guard let survivor = signal(.stop, to: fault.node) else { return }
      defer { survivor.process.signal(.resume) }
      count()
      try await Task.sleep(for: fault.pause)
    case .hang:
      guard claims.claimForSuspension(fault.node) else { return }
      defer { claims.release(fault.node) }
      // Before a process has sent hello, the longer timeout 'timeouts.start' applies.
      let known = try await running.client.directory(fresh: false)[node: fault.node]
      guard let known, known.isRunning, let survivor = signal(.stop, to: fault.node) else { return }
      defer { survivor.process.signal(.resume) }
      guard survivor.process.pid == known.pid else { return }
      count()
      let deadline = ContinuousClock.now + Self.hangLimit
      while !survivor.process.hasEnded, ContinuousClock.now < deadline {
        try await Task.sleep(for: .milliseconds(20))
      }
    case .restart:
      guard claims.beginRestart(of: fault.node) else { return }
      defer { claims.endRestart(of: fault.node) }
      if try await running.client.restart(fault.node) { count() }
    case .removeSockets:
      guard claims.beginRestart(of: fault.node) else { return }
      defer { claims.endRestart(of: fault.node) }
      try await removeSockets(of: fault.node, for: fault.pause)
      count()
    case .namesakeOfPipe, .namesakeOfCoordinator, .namesakeOfNode:
      if try await connectNamesake(fault) { count() }
    case .killOrchestrator, .killOrchestratorTwice, .killOrchestratorAndNode, .changeFile,
      .stopOrchestrator, .removeLock, .removeJournal, .removeRuntime, .fillDisk, .changeShards,
      .changeShardsAndKill:
      throw SoakFailure("'\(fault.kind.rawValue)' is no fault of a node")
    }
  }

  /// Returns the process of a node; `nil` if the node has no process.
  func process(of node: String) -> Survivor? {
    let all = try? Survivor.all(in: running.directories, patience: .milliseconds(100))
    return all?.first { $0.node == node }
  }

  /// Sends a signal to the process of a node.
  /// - Returns: The process that received the signal; `nil` if there was none.
  func signal(_ signal: Signal, to node: String) -> Survivor? {
    guard let survivor = process(of: node) else { return nil }
    let isSent = claims.unlessGuarded(node) {
      running.log.note(signal, to: survivor)
      return survivor.process.signal(signal)
    }
    return isSent ? survivor : nil
  }

  /// Removes the sockets of a node, and then restarts the node, which creates new sockets.
  private func removeSockets(of node: String, for pause: Duration) async throws {
    for endpoint in [
      try running.directories.endpoint(.inbox(node: node)),
      try running.directories.endpoint(.feed(node: node)),
    ] {
      unlink(String(endpoint.dropFirst("ipc://".count)))
    }
    /// Returns the incarnation of the node; `nil` if the topology does not contain this node or
    /// shard any more.
    func start() async throws -> UInt64? {
      try await running.client.directory(fresh: false)[node: node]?.incarnation
    }
    guard let before = try await start() else { return }
    try await Task.sleep(for: pause)
    try await running.wait(for: "another start of '\(node)', whose sockets were removed") {
      guard let now = try await start() else { return true }
      if now > before { return true }
      return try await running.client.restart(node)
    }
  }

  // MARK: Clients with another process's routing id

  /// Connects for a while with the routing id of a node or coordinator.
  /// - Returns: Whether the connection succeeded.
  private func connectNamesake(_ fault: Fault) async throws -> Bool {
    guard let target = try await namesakeTarget(by: fault) else { return false }
    let namesake = try Namesake(target.name, at: target.endpoint)
    defer { namesake.disconnect() }
    let deadline = ContinuousClock.now + Self.connectLimit
    while !namesake.hasConnected() {
      guard ContinuousClock.now < deadline else { return false }
      try await Task.sleep(for: .milliseconds(2))
    }
    try await Task.sleep(for: fault.pause)
    return true
  }

  /// Returns the routing id to use and the endpoint to connect to.
  private func namesakeTarget(
    by fault: Fault
  ) async throws -> (name: String, endpoint: String)? {
    switch fault.kind {
    case .namesakeOfPipe:
      let directory = try await running.client.directory(fresh: false)
      guard !directory.pipes.isEmpty else { return nil }
      let pipe = directory.pipes[fault.randomNumber % directory.pipes.count]
      guard let receiver = directory[node: pipe.to] else { return nil }
      return (WireName.pipe(pipe.name), receiver.inbox)
    case .namesakeOfCoordinator:
      guard !subject.memberCoordinators.isEmpty else { return nil }
      let pair = subject.memberCoordinators[fault.randomNumber % subject.memberCoordinators.count]
      return (
        WireName.coordinator(pair.coordinator),
        try running.directories.endpoint(.inbox(node: pair.member))
      )
    default:
      return (WireName.node(fault.node), try running.directories.endpoint(.control))
    }
  }
}
