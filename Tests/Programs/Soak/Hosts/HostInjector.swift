import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import Synchronization

/// Injects the faults of a plan into a topology on hosts, and ends each fault after its duration.
final class HostInjector: Sendable {
  private struct State {
    var counts = HostFaultCounts()
    /// The hosts that a fault has claimed, including hosts whose fault has ended recently.
    var claimedHosts: Set<Int> = []
    var isControllerClaimed = false
    var isOrchestratorClaimed = false
    /// The progress of the topology at the last check.
    var progress = 0
  }

  private let running: RunningTopology
  private let plan: HostsPlan
  private let cluster: HostCluster
  private let state = Mutex(State())

  /// The number of faults after which the topology must make progress.
  private static let faultsPerProgressCheck = 4
  private static let progressLimit: Duration = .seconds(15)
  /// The time after a fault until another fault may strike the same host. In this time, Slurm hears
  /// from the host, so that two silences do not add up.
  private static let recovery: Duration = .seconds(6)

  init(_ running: RunningTopology, _ plan: HostsPlan, _ cluster: HostCluster) {
    self.running = running
    self.plan = plan
    self.cluster = cluster
  }

  /// The counts of the faults that have struck so far.
  var counts: HostFaultCounts { state.withLock { $0.counts } }

  /// Injects the faults of the plan, and ends each of them after its duration.
  /// - Parameter isEnough: Returns whether to stop. Called before each fault.
  func run(until isEnough: () -> Bool) async throws {
    try await withThrowingTaskGroup { group in
      for (index, fault) in plan.faults.enumerated() where !isEnough() {
        try await Task.sleep(for: .milliseconds(fault.gap))
        group.addTask { [self] in
          if try await inject(fault) { state.withLock { $0.counts.count(fault.kind) } }
        }
        if (index + 1).isMultiple(of: Self.faultsPerProgressCheck) { try await awaitProgress() }
      }
      try await group.waitForAll()
    }
  }

  /// Injects a fault.
  /// - Returns: Whether the fault struck.
  private func inject(_ fault: HostFault) async throws -> Bool {
    switch fault.kind {
    case .kill: return processes(of: fault.node).contains { kill($0, SIGKILL) == 0 }
    case .cancel: return try await cancel(fault.node)
    case .pause, .hang: return await suspend(fault.node, for: fault.time)
    case .controller: return try await injectControllerFault(for: fault.time)
    case .orchestrator: return try await injectOrchestratorFault(for: fault.time)
    case .hangAndPartition, .partition, .lossy, .power, .daemon:
      guard state.withLock({ $0.claimedHosts.insert(fault.host).inserted }) else { return false }
      try await injectHostFault(fault)
      if fault.kind.silencesHost { try? await Task.sleep(for: Self.recovery) }
      state.withLock { _ = $0.claimedHosts.remove(fault.host) }
      return true
    }
  }

  // MARK: Processes

  private func processes(of node: String) -> [Int32] {
    cluster.processes(of: node, in: running.directory, topology: HostsRound.topology)
  }

  /// Suspends the processes of a node for a time. Unit of `time`: milliseconds.
  private func suspend(_ node: String, for time: Int) async -> Bool {
    let suspended = processes(of: node).compactMap { AdoptedProcess(pid: $0) }
      .filter { $0.signal(.stop) }
    try? await Task.sleep(for: .milliseconds(time))
    for process in suspended { process.signal(.resume) }
    return !suspended.isEmpty
  }

  /// Cancels the Slurm job step of a node, as a user might do by mistake.
  private func cancel(_ node: String) async throws -> Bool {
    guard let steps = try await cluster.runSlurm("squeue", "-h", "-s", "-o", "%i %j") else {
      return false
    }
    let ids = steps.split(separator: "\n").compactMap { line -> String? in
      let words = line.split(separator: " ")
      guard words.count == 2, words[1].split(separator: ".").dropFirst().first == Substring(node)
      else { return nil }
      return String(words[0])
    }
    guard let id = ids.last else { return false }
    return try await cluster.runSlurm("scancel", id) != nil
  }

  // MARK: Hosts

  private func injectHostFault(_ fault: HostFault) async throws {
    let (begin, end) =
      switch fault.kind {
      case .lossy: ("lossy", "clear")
      case .power: ("lose", "start")
      case .daemon: ("end", "restart")
      default: ("partition", "heal")
      }
    try await cluster.runScript(begin, fault.host)
    if fault.kind == .hangAndPartition {
      _ = await suspend(fault.node, for: fault.time)
    } else {
      try? await Task.sleep(for: .milliseconds(fault.time))
    }
    try await cluster.runScript(end, fault.host)
  }

  private func injectControllerFault(for time: Int) async throws -> Bool {
    // The controller must be running when an orchestrator starts, because the orchestrator queries
    // the hosts from Slurm.
    let hasClaimed = state.withLock { state in
      guard !state.isControllerClaimed, !state.isOrchestratorClaimed else { return false }
      state.isControllerClaimed = true
      return true
    }
    guard hasClaimed else { return false }
    defer { state.withLock { $0.isControllerClaimed = false } }
    try await cluster.runScript("end", 0)
    try? await Task.sleep(for: .milliseconds(time))
    try await cluster.runScript("restart", 0)
    return true
  }

  private func injectOrchestratorFault(for time: Int) async throws -> Bool {
    let hasClaimed = state.withLock { state in
      guard !state.isControllerClaimed, !state.isOrchestratorClaimed else { return false }
      state.isOrchestratorClaimed = true
      return true
    }
    guard hasClaimed else { return false }
    defer { state.withLock { $0.isOrchestratorClaimed = false } }
    try await running.killOrchestrator()
    try await Task.sleep(for: .milliseconds(time))
    try await running.startOrchestrator()
    return true
  }

  // MARK: Progress

  /// Waits for progress: faults should strike events in flight, rather than a topology that never
  /// recovers.
  private func awaitProgress() async throws {
    let start = ContinuousClock.now
    while ContinuousClock.now < start + Self.progressLimit {
      if !state.withLock(\.isOrchestratorClaimed) {
        let now = plan.subject.progress(try await running.client.directory(fresh: false))
        let hasProgressed = state.withLock { state in
          let hasProgressed =
            now < state.progress || now >= state.progress + plan.subject.topic.requiredProgress
          if hasProgressed { state.progress = now }
          return hasProgressed
        }
        if hasProgressed { return }
      }
      try await Task.sleep(for: .milliseconds(50))
    }
  }
}
