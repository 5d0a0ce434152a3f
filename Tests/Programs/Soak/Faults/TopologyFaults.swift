import Glibc
import PipeRuntime

/// Faults on a topology as a whole, one at a time: on its orchestrator, its files, or its disk.
struct TopologyFaults: Sendable {
  private let running: RunningTopology
  private let nodes: NodeFaults
  private let claims: Claims
  private let failpoints: FailpointSwitch
  /// The carrier nodes, by the nodes that live in their processes.
  private let hosts: [String: String]

  /// The longest time until a full disk is reported.
  private static let fullDiskTimeout: Duration = .seconds(5)
  /// The time after which pending failpoints have acted.
  private static let disarmDelay: Duration = .milliseconds(50)
  /// The longest time for an answer. A node that has just answered is found hung at the earliest
  /// after twice this time.
  private static let answerLimit: Duration = .milliseconds(200)
  /// The number of attempts to get an answer from a node.
  private static let queryAttempts = 10

  init(
    _ running: RunningTopology, _ nodes: NodeFaults, _ claims: Claims,
    _ failpoints: FailpointSwitch, hosts: [String: String]
  ) {
    self.running = running
    self.nodes = nodes
    self.claims = claims
    self.failpoints = failpoints
    self.hosts = hosts
  }

  /// - Returns: Whether the fault has struck.
  func inject(_ fault: Fault) async throws -> Bool {
    switch fault.kind {
    case .killOrchestrator:
      try await running.killOrchestrator()
      try await Task.sleep(for: fault.pause)
      try await running.startOrchestrator()
      return true
    case .killOrchestratorTwice:
      try await running.killOrchestrator()
      try running.launchOrchestrator()
      try await Task.sleep(for: fault.pause)
      try await running.killOrchestrator()
      try await running.startOrchestrator()
      return true
    case .killOrchestratorAndNode:
      try await running.killOrchestrator()
      let killed = nodes.signal(.kill, to: fault.node)
      try await Task.sleep(for: fault.pause)
      try await running.startOrchestrator()
      return try await awaitStart(after: killed)
    case .changeFile:
      try await running.killOrchestrator()
      let changed = nodes.process(of: try running.change(fault.node))
      try await Task.sleep(for: fault.pause)
      try await running.startOrchestrator()
      return try await awaitStart(after: changed)
    case .stopOrchestrator:
      running.signalOrchestrator(.stop)
      defer { running.signalOrchestrator(.resume) }
      let killed = nodes.signal(.kill, to: fault.node)
      try await Task.sleep(for: fault.pause)
      running.signalOrchestrator(.resume)
      return try await awaitStart(after: killed)
    case .removeLock:
      unlink(running.directories.lock)
      try await running.wait(for: "the lock, which was removed") {
        PipeRuntime.RunningTopology.find(running.directories)?.pid == running.orchestratorID
      }
      return true
    case .removeRuntime:
      FileSystem.removeTree(running.directories.runtime)
      try await running.awaitEndOfOrchestrator(
        .exited(code: 1), saying: "was removed while the topology was running")
      try await running.startOrchestrator()
      return true
    case .removeJournal: return try await removeJournal(of: fault.node, fault.randomNumber)
    case .fillDisk: return try await fillDisk(for: fault.pause)
    case .kill, .killTwo, .pause, .longPause, .hang, .restart, .namesakeOfPipe,
      .namesakeOfCoordinator, .namesakeOfNode, .removeSockets:
      throw SoakFailure("'\(fault.kind.rawValue)' is no fault of a topology")
    }
  }

  /// Waits until a node is started again.
  /// - Parameter former: The node's process that has ended or must end.
  /// - Returns: Whether there was a process.
  private func awaitStart(after former: Survivor?) async throws -> Bool {
    guard let former, let incarnation = former.record?.incarnation else { return false }
    try await running.wait(for: "another start of '\(former.node)' than \(incarnation)") {
      let directory = try await running.client.directory(fresh: false)
      return directory[node: former.node].map { $0.incarnation > incarnation } ?? false
    }
    return true
  }

  // MARK: A journal

  /// Removes files of a node's journal, and waits until the node has rewritten the journal and
  /// ended.
  ///
  /// No fault may end the node before that, because the data exists only in its memory.
  private func removeJournal(of node: String, _ randomNumber: Int) async throws -> Bool {
    guard claims.protectFromFaults(node) else { return false }
    defer { claims.endProtection(of: node) }
    failpoints.disarm()
    let result: Bool
    do {
      result = try await removeGuardedJournal(of: node, randomNumber)
    } catch {
      try failpoints.arm()
      throw error
    }
    try failpoints.arm()
    return result
  }

  private func removeGuardedJournal(of node: String, _ randomNumber: Int) async throws -> Bool {
    try await Task.sleep(for: Self.disarmDelay)
    guard let survivor = try await answeringProcess(of: node) else { return false }
    let journal = running.directories.journal(of: node)
    let variants: [[String]] = [[""], ["", "-wal"], [".step"], ["", "-wal", "-shm", ".step"]]
    for suffix in variants[randomNumber % variants.count] { unlink(journal + suffix) }
    guard hosts[node] == nil else {
      // An embedded coordinator restarts alone, and its process goes on. The rewriting is not
      // observed then, but a loss would be.
      return try await awaitStart(after: survivor)
    }
    try await running.wait(for: "the end of '\(node)', whose journal was removed") {
      survivor.process.hasEnded
    }
    guard FileSystem.exists(journal), FileSystem.exists(journal + ".step") else {
      throw SoakFailure(
        "'\(node)' ended before it had restored its removed journal")
    }
    return true
  }

  /// Returns the process of a node that has just answered, and is therefore not about to be found
  /// hung.
  private func answeringProcess(of node: String) async throws -> Survivor? {
    for _ in 1...Self.queryAttempts {
      let queryStart = ContinuousClock.now
      let information = try await running.client.directory()[node: node]
      // A quick answer means that all nodes have answered.
      if ContinuousClock.now - queryStart < Self.answerLimit, let information,
        information.isRunning,
        let survivor = nodes.process(of: node), survivor.process.pid == information.pid
      {
        return survivor
      }
      try await Task.sleep(for: .milliseconds(20))
    }
    return nil
  }

  // MARK: The disk

  /// Fills the disk until a node reports it, and for a while after that. Then restarts the nodes
  /// that have failed for good.
  private func fillDisk(for pause: Duration) async throws -> Bool {
    guard let disk = running.disk else { return false }
    let isReported: Bool
    do {
      try disk.fill()
      isReported = try await awaitFailure()
      try await Task.sleep(for: pause)
    } catch {
      try? disk.free()
      throw error
    }
    try disk.free()
    try await running.wait(for: "all nodes to run after the disk was full") {
      let nodes = try await running.client.directory(fresh: false).nodes
      for node in nodes where node.phase == "failed" {
        _ = try await running.client.start([node.name])
      }
      return nodes.allSatisfy { $0.isRunning || !Self.lacksSpace($0) && $0.phase != "failed" }
    }
    return isReported
  }

  private func awaitFailure() async throws -> Bool {
    let deadline = ContinuousClock.now + Self.fullDiskTimeout
    while ContinuousClock.now < deadline {
      if try await running.client.directory(fresh: false).nodes.contains(where: Self.lacksSpace) {
        return true
      }
      try await Task.sleep(for: .milliseconds(10))
    }
    return false
  }

  private static func lacksSpace(_ node: NodeInformation) -> Bool {
    guard let reason = node.reason else { return false }
    return reason.contains("the disk is full") || reason.contains(SystemError.text(of: ENOSPC))
  }
}

extension RunningTopology {
  /// The longest time for a fault to take effect.
  private static let effectLimit: Duration = .seconds(60)

  /// Waits until a condition holds.
  /// - Parameter what: The condition, in words.
  func wait(for what: String, until condition: () async throws -> Bool) async throws {
    let deadline = ContinuousClock.now + Self.effectLimit
    while try await !condition() {
      guard ContinuousClock.now < deadline else {
        throw SoakFailure("waited \(Self.effectLimit.shortText) in vain for \(what)")
      }
      try await Task.sleep(for: .milliseconds(10))
    }
  }
}
