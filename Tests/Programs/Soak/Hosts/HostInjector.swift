import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import Synchronization

/// Does the faults of a plan to a topology on hosts, each with its healing.
final class HostInjector: Sendable {
  private struct State {
    var counts = HostFaultCounts()
    /// Hosts that a fault has, or has had a moment ago.
    var taken: Set<Int> = []
    var isControllerTaken = false
    var isOrchestratorTaken = false
    /// How far the topology was when it was last looked at.
    var progress = 0
  }

  private let running: RunningTopology
  private let plan: HostsPlan
  private let cluster: HostCluster
  private let state = Mutex(State())

  /// Faults after which something must have got on.
  private static let patience = 4
  private static let progressLimit: Duration = .seconds(15)
  /// Slurm has heard a host again, so that another silence is not added to this one.
  private static let recovery: Duration = .seconds(6)

  init(_ running: RunningTopology, _ plan: HostsPlan, _ cluster: HostCluster) {
    self.running = running
    self.plan = plan
    self.cluster = cluster
  }

  /// What has struck so far.
  var counts: HostFaultCounts { state.withLock { $0.counts } }

  /// Injects the faults, and heals them.
  /// - Parameter isEnough: Asked before each one.
  func run(until isEnough: () -> Bool) async throws {
    try await withThrowingTaskGroup { group in
      for (place, fault) in plan.faults.enumerated() where !isEnough() {
        try await Task.sleep(for: .milliseconds(fault.gap))
        group.addTask { [self] in
          if try await strike(fault) { state.withLock { $0.counts.count(fault.kind) } }
        }
        if (place + 1).isMultiple(of: Self.patience) { try await awaitProgress() }
      }
      try await group.waitForAll()
    }
  }

  /// - Returns: Whether it has struck.
  private func strike(_ fault: HostFault) async throws -> Bool {
    switch fault.kind {
    case .kill: return processes(of: fault.node).contains { kill($0, SIGKILL) == 0 }
    case .cancel: return try await cancel(fault.node)
    case .pause, .hang: return await halt(fault.node, for: fault.time)
    case .controller: return try await strikeController(for: fault.time)
    case .orchestrator: return try await strikeOrchestrator(for: fault.time)
    case .hangAndPartition, .partition, .lossy, .power, .daemon:
      guard state.withLock({ $0.taken.insert(fault.host).inserted }) else { return false }
      try await strikeHost(fault)
      if fault.kind.silencesHost { try? await Task.sleep(for: Self.recovery) }
      state.withLock { _ = $0.taken.remove(fault.host) }
      return true
    }
  }

  // MARK: Processes

  private func processes(of node: String) -> [Int32] {
    cluster.processes(of: node, in: running.directory, topology: HostsRound.topology)
  }

  /// Lets the processes of a node stand still for a while.
  private func halt(_ node: String, for time: Int) async -> Bool {
    let held = processes(of: node).compactMap { AdoptedProcess(pid: $0) }
      .filter { $0.signal(.stop) }
    try? await Task.sleep(for: .milliseconds(time))
    for process in held { process.signal(.resume) }
    return !held.isEmpty
  }

  /// Has Slurm end the step of a node, as somebody would who takes it for his.
  private func cancel(_ node: String) async throws -> Bool {
    guard let steps = try await cluster.ask("squeue", "-h", "-s", "-o", "%i %j") else {
      return false
    }
    let ids = steps.split(separator: "\n").compactMap { line -> String? in
      let words = line.split(separator: " ")
      guard words.count == 2, words[1].split(separator: ".").dropFirst().first == Substring(node)
      else { return nil }
      return String(words[0])
    }
    guard let id = ids.last else { return false }
    return try await cluster.ask("scancel", id) != nil
  }

  // MARK: Hosts

  private func strikeHost(_ fault: HostFault) async throws {
    let (begin, end) =
      switch fault.kind {
      case .lossy: ("lossy", "clear")
      case .power: ("lose", "start")
      case .daemon: ("end", "restart")
      default: ("partition", "heal")
      }
    try await cluster.call(begin, fault.host)
    if fault.kind == .hangAndPartition {
      _ = await halt(fault.node, for: fault.time)
    } else {
      try? await Task.sleep(for: .milliseconds(fault.time))
    }
    try await cluster.call(end, fault.host)
  }

  private func strikeController(for time: Int) async throws -> Bool {
    // The next orchestrator asks Slurm which hosts there are.
    let isFree = state.withLock { state in
      guard !state.isControllerTaken, !state.isOrchestratorTaken else { return false }
      state.isControllerTaken = true
      return true
    }
    guard isFree else { return false }
    defer { state.withLock { $0.isControllerTaken = false } }
    try await cluster.call("end", 0)
    try? await Task.sleep(for: .milliseconds(time))
    try await cluster.call("restart", 0)
    return true
  }

  private func strikeOrchestrator(for time: Int) async throws -> Bool {
    let isFree = state.withLock { state in
      guard !state.isControllerTaken, !state.isOrchestratorTaken else { return false }
      state.isOrchestratorTaken = true
      return true
    }
    guard isFree else { return false }
    defer { state.withLock { $0.isOrchestratorTaken = false } }
    try await running.killOrchestrator()
    try await Task.sleep(for: .milliseconds(time))
    try await running.startOrchestrator()
    return true
  }

  // MARK: Progress

  /// Faults are to meet events on their way, not a topology that never gets to its feet.
  private func awaitProgress() async throws {
    let start = ContinuousClock.now
    while ContinuousClock.now < start + Self.progressLimit {
      if !state.withLock(\.isOrchestratorTaken) {
        let now = plan.subject.progress(try await running.client.directory(fresh: false))
        let hasMoved = state.withLock { state in
          let hasMoved = now < state.progress || now >= state.progress + plan.subject.topic.advance
          if hasMoved { state.progress = now }
          return hasMoved
        }
        if hasMoved { return }
      }
      try await Task.sleep(for: .milliseconds(50))
    }
  }
}
