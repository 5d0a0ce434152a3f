import PipeRuntime
import PipeRuntimeTestKit
import Synchronization

/// Runs a random topology with a real orchestrator, sends events to it, and records the steps of
/// its nodes.
struct RamblingRun {
  private let topology: TopologyHarness
  private let nodes: [RamblingPlan.Node]
  private let collector = StepCollector()

  /// The number of events to send.
  private static let requests = 60
  /// The maximum time to wait for an answer. A node with a full pipe may never answer.
  private static let answerTimeout: Duration = .milliseconds(150)
  /// The number of unanswered events after which no more events are sent.
  private static let unansweredLimit = 4
  /// The number of events after which dead letters are read. A node without a journal keeps only
  /// its latest dead letters.
  private static let deadLetterInterval = 6
  private static let limit: Duration = .seconds(60)

  /// Collects the steps that nodes report during the run.
  private final class StepCollector: Sendable {
    private let trace = Mutex(RunTrace())
    private let readTask = Mutex<Task<Void, Never>?>(nil)

    var current: RunTrace { trace.withLock { $0 } }

    func read(_ messages: AsyncStream<FeedMessage>) {
      let task = Task { [self] in
        for await case .step(let step) in messages { trace.withLock { $0.add(step) } }
      }
      readTask.withLock { $0 = task }
    }

    func add(_ deadLetters: [DeadLetter], of node: String) {
      trace.withLock { $0.add(deadLetters, of: node) }
    }

    func stop() { readTask.withLock { $0 }?.cancel() }
  }

  private init(_ topology: TopologyHarness, _ plan: RamblingPlan) {
    self.topology = topology
    nodes = plan.nodes
  }

  /// Runs a topology, stops it, and returns the trace of the run.
  static func run(
    _ plan: RamblingPlan, _ topology: Topology, using generator: inout SplitMix64
  ) async throws -> RunTrace {
    var options = TopologyHarness.Options()
    options.recordedNodes = []
    var own = SplitMix64(seed: generator.next())
    return try await withTopology(topology, options: options) { harness in
      try await RamblingRun(harness, plan).trace(using: &own)
    }
  }

  private func trace(using generator: inout SplitMix64) async throws -> RunTrace {
    collector.read(try await topology.client.steps(of: nodes.map(\.name)))
    defer { collector.stop() }
    try await awaitFirstSteps()
    var silent = 0
    for number in 0..<Self.requests where silent < Self.unansweredLimit {
      let node = nodes.randomElement(using: &generator)!
      let event = node.externalEvents.randomElement(using: &generator)!
      if try await !send(event, to: node.name) { silent += 1 }
      if number % Self.deadLetterInterval == 0 { try await readDeadLetters() }
    }
    try await awaitLastSteps()
    // The trace ends here: later steps may follow dead letters that the requests below do not
    // return.
    var trace = collector.current
    for node in nodes {
      trace.add(try await topology.client.deadLetters(of: node.name), of: node.name)
    }
    return trace
  }

  /// Sends an event to a node.
  /// - Returns: Whether the node answered.
  private func send(_ event: String, to node: String) async throws -> Bool {
    do {
      _ = try await topology.client.send(node, json: .string(event), timeout: Self.answerTimeout)
      return true
    } catch TopologyClientError.unknownOutcome, TopologyClientError.busy,
      TopologyClientError.timedOut
    {
      // On a busy machine, a node may take longer than the timeout to start.
      return false
    }
  }

  /// Waits until the feed of each node has delivered a step. Before that, no node leaves its
  /// initial state.
  private func awaitFirstSteps() async throws {
    let haveBegun: Bool? = try await poll(every: .milliseconds(5), within: Self.limit) {
      let silent = nodes.filter { !collector.current.hasBegun($0.name) }
      for node in silent { _ = try await send(RamblingPlan.tick, to: node.name) }
      return silent.isEmpty ? true : nil
    }
    guard haveBegun != nil else { throw SoakFailure("the feeds did not deliver the first steps") }
  }

  /// Waits until the feeds have delivered all steps taken so far, or have reported them as skipped.
  private func awaitLastSteps() async throws {
    let directory = try await topology.client.directory()
    let areReported: Bool? = try await poll(every: .milliseconds(5), within: Self.limit) {
      let current = collector.current
      return nodes.allSatisfy { node in
        current.version(of: node.name) >= directory[node: node.name]?.status?.version ?? 0
      } ? true : nil
    }
    guard areReported != nil else { throw SoakFailure("the feeds did not deliver all steps") }
  }

  private func readDeadLetters() async throws {
    for node in nodes {
      collector.add(try await topology.client.deadLetters(of: node.name), of: node.name)
    }
  }
}
