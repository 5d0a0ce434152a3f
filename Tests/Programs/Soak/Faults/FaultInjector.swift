import PipeRuntime
import Synchronization

/// Injects faults into a running topology, from outside of the nodes.
final class FaultInjector: Sendable {
  private struct State {
    var counts = FaultCounts()
    /// The progress of the topology at the last check.
    var progress = 0
  }

  private let running: RunningTopology
  private let subject: any SoakSubject
  private let claims: Claims
  private let nodeFaults: NodeFaults
  private let topologyFaults: TopologyFaults
  private let state = Mutex(State())

  init(
    _ running: RunningTopology, _ subject: any SoakSubject, _ failpoints: FailpointSwitch
  ) {
    self.running = running
    self.subject = subject
    claims = Claims(hosts: subject.hosts)
    nodeFaults = NodeFaults(running, subject, claims)
    topologyFaults = TopologyFaults(
      running, nodeFaults, claims, failpoints, hosts: subject.hosts)
  }

  /// The counts of the faults that have struck so far, without failpoints.
  var counts: FaultCounts { state.withLock { $0.counts } }

  /// Injects faults until a closure says that there are enough.
  /// - Parameters:
  ///   - kinds: The kinds to choose from. A kind that is repeated is chosen more often.
  ///   - isEnough: Returns whether to stop. Called before each fault.
  func run(
    _ kinds: [FaultKind], using generator: inout SplitMix64, until isEnough: () -> Bool
  ) async throws {
    try await withThrowingTaskGroup { group in
      var count = 0
      while !isEnough() {
        let fault = Fault(of: kinds, on: subject.faultTargets, using: &generator)
        group.addTask { [self] in try await inject(fault) }
        try await Task.sleep(
          for: .microseconds(Int.random(in: subject.topic.gap, using: &generator)))
        count += 1
        // Wait for progress: faults should strike events in flight, rather than a topology that
        // never recovers.
        if count.isMultiple(of: subject.topic.faultsPerProgressCheck) { try await awaitProgress() }
      }
      try await group.waitForAll()
    }
  }

  private func inject(_ fault: Fault) async throws {
    guard fault.kind.isOfTopology else {
      return try await nodeFaults.inject(fault) { count(fault.kind) }
    }
    guard claims.claimTopology() else { return }
    defer { claims.releaseTopology() }
    if try await topologyFaults.inject(fault) { count(fault.kind) }
  }

  private func awaitProgress() async throws {
    let start = ContinuousClock.now
    while ContinuousClock.now < start + .seconds(1) {
      // While the orchestrator is down, progress cannot be read. Faults on nodes continue at a
      // lower rate.
      if claims.isTopologyClaimed {
        guard ContinuousClock.now < start + .milliseconds(500) else { return }
        try await Task.sleep(for: .milliseconds(20))
        continue
      }
      let directory = try await running.client.directory(fresh: false)
      let now = subject.progress(directory)
      let hasProgressed = state.withLock { state in
        // If the value is lower, a node has not reported its state since its start.
        let hasProgressed =
          now < state.progress || now >= state.progress + subject.topic.requiredProgress
        if hasProgressed { state.progress = now }
        return hasProgressed
      }
      if hasProgressed { return }
      try await Task.sleep(for: .milliseconds(10))
    }
  }

  private func count(_ kind: FaultKind) {
    state.withLock { $0.counts.kinds[kind, default: 0] += 1 }
  }
}

/// A randomly chosen fault.
struct Fault: Sendable {
  let kind: FaultKind
  let node: String
  /// Another node; the same node if there is only one.
  let other: String
  /// The duration of the fault.
  let pause: Duration
  /// A random number for further choices.
  let randomNumber: Int

  init(of kinds: [FaultKind], on nodes: [String], using generator: inout SplitMix64) {
    kind = kinds.randomElement(using: &generator)!
    let node = nodes.randomElement(using: &generator)!
    self.node = node
    other = nodes.filter { $0 != node }.randomElement(using: &generator) ?? node
    pause = .microseconds(Int.random(in: kind.pause, using: &generator))
    randomNumber = Int.random(in: 0..<1_000, using: &generator)
  }
}
