import Glibc
import PipeRuntime

/// Injects faults into a topology as a whole: its orchestrator, its files, or its disk. Only one
/// such fault at a time is active.
struct TopologyFaults: Sendable {
  private let running: RunningTopology
  private let nodes: NodeFaults
  private let claims: Claims
  private let failpoints: FailpointSwitch
  /// For each embedded node, its carrier node.
  private let hosts: [String: String]

  /// The maximum time until a node reports a full disk.
  private static let fullDiskTimeout: Duration = .seconds(5)
  /// The time to wait after failpoints are disabled, so that failpoints in progress have acted.
  private static let disarmDelay: Duration = .milliseconds(50)
  /// The maximum time for an answer of a node. An orchestrator finds a node hung only if the node
  /// has not answered for at least twice this time.
  private static let answerLimit: Duration = .milliseconds(200)
  /// The maximum number of queries to a node.
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

  /// Injects a fault.
  /// - Returns: Whether the fault struck.
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
      unlink(running.directories.lockFile)
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
    case .changeShards: return try await changeShards(fault, killsOrchestrator: false)
    case .changeShardsAndKill: return try await changeShards(fault, killsOrchestrator: true)
    case .kill, .killTwo, .pause, .longPause, .hang, .restart, .namesakeOfPipe,
      .namesakeOfCoordinator, .namesakeOfNode, .removeSockets:
      throw SoakFailure("'\(fault.kind.rawValue)' is no fault of a topology")
    }
  }

  /// Waits until the orchestrator starts a node again.
  /// - Parameter former: The node's process that has ended or must end; `nil` if there was none.
  /// - Returns: Whether there was such a process.
  private func awaitStart(after former: Survivor?) async throws -> Bool {
    guard let former, let incarnation = former.record?.incarnation else { return false }
    try await running.wait(for: "another start of '\(former.node)' than \(incarnation)") {
      let directory = try await running.client.directory(fresh: false)
      return directory[node: former.node].map { $0.incarnation > incarnation } ?? false
    }
    return true
  }

  // MARK: Removal of a journal

  /// Removes files of a node's journal. Waits until the node has written the journal again and has
  /// ended.
  ///
  /// Until then, no fault may end the node, because only the node's memory contains the data.
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
      // An embedded coordinator restarts alone, while its process continues. So this code does not
      // see when the journal is written again, but later checks would find a loss.
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

  /// Returns the process of a node that has just answered. The orchestrator is then not about to
  /// find the node hung.
  private func answeringProcess(of node: String) async throws -> Survivor? {
    for _ in 1...Self.queryAttempts {
      let queryStart = ContinuousClock.now
      let information = try await running.client.directory()[node: node]
      // After a quick answer of the orchestrator, the information of all nodes is new.
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

  // MARK: Numbers of shards

  /// Changes the number of a node's shards, and waits until all its shards run.
  /// - Parameter killsOrchestrator: Whether to kill the orchestrator while it moves the instances.
  private func changeShards(_ fault: Fault, killsOrchestrator: Bool) async throws -> Bool {
    guard let change = try running.changeShards(fault.randomNumber) else { return false }
    let client = running.client
    async let applied = client.apply(running.path)
    if killsOrchestrator {
      try await Task.sleep(for: fault.pause)
      try await running.killOrchestrator()
      try await running.startOrchestrator()
    }
    _ = try await applied
    try await running.wait(for: "\(change.shards) shards of '\(change.node)'") {
      let directory = try await client.directory(fresh: false)
      let shards = directory.shards(of: change.node)
      if max(1, shards.count) == change.shards, directory.nodes.allSatisfy(\.isRunning) {
        return true
      }
      // Other faults may have prevented the change, or the start of a node.
      if directory.nodes.contains(where: { $0.phase == "failed" || $0.phase == "stopped" }) {
        _ = try await client.apply(running.path)
        for node in try await client.directory(fresh: false).nodes
        where node.phase == "failed" || node.phase == "stopped" {
          _ = try await client.start([node.name])
        }
      } else if max(1, shards.count) != change.shards {
        _ = try await client.apply(running.path)
      }
      return false
    }
    return true
  }

  // MARK: A full disk

  /// Fills the disk until a node reports an error, and keeps the disk full for a while. Then
  /// restarts failed nodes.
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
  /// The maximum time until a fault takes effect.
  private static let effectLimit: Duration = .seconds(60)

  /// Waits until a condition holds.
  /// - Parameter what: A description of the condition, for the error message.
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
