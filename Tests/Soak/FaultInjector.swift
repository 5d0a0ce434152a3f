import PipeRuntime
import Synchronization
import NumberMachines

/// Does to the nodes of a running topology what no node can be prepared for.
final class FaultInjector: Sendable {
  private struct State {
    var counts = FaultCounts()
    /// Nodes that stand still.
    var still: Set<String> = []
    /// How far the topology was when it was last looked at.
    var progress = 0
  }

  private let client: TopologyClient
  private let plan: any SoakSubject
  private let state = Mutex(State())

  init(_ client: TopologyClient, _ plan: any SoakSubject) {
    self.client = client
    self.plan = plan
  }

  /// What has struck so far, except for failpoints.
  var counts: FaultCounts { state.withLock { $0.counts } }

  /// Injects faults until there are enough.
  /// - Parameter isEnough: Asked before each one.
  func run(
    using generator: inout SplitMix64, until isEnough: () -> Bool
  ) async throws {
    let weighted = plan.kinds.flatMap { Array(repeating: $0, count: $0.weight) }
    try await withThrowingTaskGroup { group in
      var count = 0
      while !isEnough() {
        let kind = weighted.randomElement(using: &generator)!
        let first = plan.struck.randomElement(using: &generator)!
        let others = plan.struck.filter { $0 != first }
        let nodes = [first, others.randomElement(using: &generator) ?? first]
        let pause = Duration.microseconds(Int.random(in: kind.pause, using: &generator))
        group.addTask { [self] in try await strike(kind, nodes, pause) }
        try await Task.sleep(for: .microseconds(Int.random(in: plan.topic.gap, using: &generator)))
        count += 1
        // Faults are to meet events on their way, not a topology that never gets to its feet.
        if count.isMultiple(of: plan.topic.patience) { try await awaitProgress() }
      }
      try await group.waitForAll()
    }
  }

  private func strike(_ kind: FaultKind, _ nodes: [String], _ pause: Duration) async throws {
    switch kind {
    case .kill:
      if try await signal(.kill, to: nodes[0]) { count(kind) }
    case .killTwo:
      async let first = signal(.kill, to: nodes[0])
      async let second = signal(.kill, to: nodes[1])
      if try await (first, second) == (true, true) { count(kind) }
    case .pause, .longPause:
      guard hold(nodes[0]) else { return }
      if try await signal(.stop, to: nodes[0]) {
        count(kind)
        try await Task.sleep(for: pause)
        _ = try await signal(.resume, to: nodes[0])
      }
      release(nodes[0])
    case .hang:
      guard hold(nodes[0]) else { return }
      if try await signal(.stop, to: nodes[0]) {
        count(kind)
        try await awaitEnd(of: nodes[0])
      }
      release(nodes[0])
    case .restart:
      do {
        try await client.restart([nodes[0]])
        count(kind)
      } catch TopologyClientError.timedOut, TopologyClientError.failed {
        // Others have kept it from running again, or from stopping in order; it is looked after at the
        // end.
      }
    }
  }

  /// Sends a signal. Returns whether there was a process to take it.
  private func signal(_ signal: Signal, to node: String) async throws -> Bool {
    do {
      try await client.kill(node, signal: signal.number)
      return true
    } catch TopologyClientError.failed {
      return false
    }
  }

  /// Waits until the process that stands still has been found hung, or something else has ended it.
  private func awaitEnd(of node: String) async throws {
    let before = try await client.directory(fresh: false)[node: node]?.pid
    let deadline = ContinuousClock.now + .seconds(30)
    while try await client.directory(fresh: false)[node: node]?.pid == before {
      guard before != nil, ContinuousClock.now < deadline else { return }
      try await Task.sleep(for: .milliseconds(20))
    }
  }

  private func awaitProgress() async throws {
    let deadline = ContinuousClock.now + .seconds(1)
    while ContinuousClock.now < deadline {
      let directory = try await client.directory(fresh: false)
      let now = plan.progress(directory)
      let hasMoved = state.withLock { state in
        // Less than before where a node has told nothing since its start.
        let hasMoved = now < state.progress || now >= state.progress + plan.topic.advance
        if hasMoved { state.progress = now }
        return hasMoved
      }
      if hasMoved { return }
      try await Task.sleep(for: .milliseconds(10))
    }
  }

  private func count(_ kind: FaultKind) {
    state.withLock { $0.counts.kinds[kind, default: 0] += 1 }
  }

  /// Whether the node did not stand still already.
  private func hold(_ node: String) -> Bool {
    state.withLock { $0.still.insert(node).inserted }
  }

  private func release(_ node: String) { state.withLock { _ = $0.still.remove(node) } }
}
